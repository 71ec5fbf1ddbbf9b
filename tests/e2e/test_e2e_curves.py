"""What trainings print is kept beside their logs, and seen on the screen and in the report when the logs are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.decks import Deck
from tests.fakes.live_deck import live_deck
from tests.fakes.screen_rig import ScreenRig, screen_on
from tests.report_html.report_samples import Page

DECK = """
[deck]
gpus = "sim:4"
[[task]]
name = "lr{lr}-s{seed}"
command = "for i in 1 2 3 4; do echo step $i loss=$((10 / i + {seed} + {lr})); done; echo step 5 loss={last}"
matrix.case = [{ lr = 1, last = "nan" }, { lr = 5, last = "2.5" }]
matrix.seed = [1, 3]
metrics.loss = { regex = 'loss=(\\S+)', best = "min" }
[[task]]
name = "plain"
command = ["true"]
"""
TASKS = ("lr1-s1", "lr1-s3", "lr5-s1", "lr5-s3")


async def presses(rig: ScreenRig, key: str, seen: str) -> None:
    await rig.press(key)
    await rig.until_seen(seen)


async def test_curves_of_tasks_over_each_other_are_compared_by_keys(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        async with screen_on(deck, size=(80, 24)) as rig:
            for name in (*TASKS, "plain"):
                await rig.until_state(name, "succeeded")
            for name in TASKS:
                await rig.until((tmp_path / f"logs/{name}/attempt-1.curves.json").exists)
                (tmp_path / f"logs/{name}/attempt-1.log").unlink()
            await presses(rig, "C", "last values   4 tasks")
            assert "loss over step   mean ± deviation over seeds" in rig.text()
            await presses(rig, "j", "▸b ")
            await presses(rig, "b", "baseline")
            await presses(rig, "left", "at step")
            await presses(rig, "b", "▸b")
            await rig.press(*["left"] * 16)
            await presses(rig, "b", " -4")
            await presses(rig, "g", "▸c lr5-s1")
            await presses(rig, "s", "smoothed 0.6")
            await presses(rig, "y", "log scale")
            await presses(rig, "x", "over time")
            await presses(rig, "enter", "Attempts")
            await presses(rig, "escape", "▸c lr5-s1")
            await presses(rig, "C", "plain")
            await rig.press("G")
            await presses(rig, "C", "This task has reported no metric")
            assert "metrics.loss = {" in rig.text()


RESUMED = """
[deck]
gpus = "none"
cpu_slots = 2
[defaults]
gpus = 0
retries = 2
backoff = 0
metrics.loss = { regex = 'loss=(\\S+)' }
[[task]]
name = "resumed"
command = "for i in 1 2 3 4; do echo step $i loss=$i; done; touch last.pt; exit 1"
resume_command = "test -e twice || { touch twice; exit 1; }; for i in 3 4 5; do echo step $i loss=3$i; done"
resume_when = "last.pt"
[[task]]
name = "anew"
command = "for i in 1 2; do echo step $i loss=$GPUDECK_ATTEMPT$i; done; test $GPUDECK_ATTEMPT = 2"
"""


def test_a_task_that_went_on_from_its_checkpoint_has_one_curve_and_one_that_began_anew_that_of_its_last_attempt(
    deck: Deck,
) -> None:
    deck.write(RESUMED)
    ran = deck.run()
    assert (ran.code, len(ran.ended("resumed")), len(ran.ended("anew"))) == (0, 3, 2)
    curves = {name: deck.curves(name, attempt) for name, attempt in (("resumed", 3), ("anew", 2))}
    assert curves["resumed"]["loss"] == [[1, 1], [2, 2], [3, 33], [4, 34], [5, 35]]
    assert curves["anew"]["loss"] == [[1, 21], [2, 22]]
    assert deck.curves("resumed", 1)["loss"] == [[1, 1], [2, 2], [3, 3], [4, 4]]
    page = deck.command("report", "-o", "-").out
    assert "loss over step" in page
    assert "over step 1 to 5" in Page(page).text


def test_the_time_of_a_task_in_the_report_is_that_of_all_attempts_that_it_went_on_from(deck: Deck) -> None:
    deck.write(RESUMED)
    deck.run()
    page = Page(deck.command("report", "-o", "-").out)
    table = json.loads(deck.command("table", "--metric", "duration_s", "--format", "json").out)
    pieces = [deck.record("resumed", attempt)["end"]["duration_s"] for attempt in (1, 2, 3)]
    told = {row["task"]: row["metrics"]["duration_s"] for row in table}
    assert told["resumed"] == pytest.approx(sum(pieces))
    for task, seconds in told.items():
        assert page.value(task, "time") == pytest.approx(seconds, abs=0.002 * len(pieces))
