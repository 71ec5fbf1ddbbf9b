"""`--json` of commands that act or check: one object that tells what was done, to whom, and what was refused."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.commands.commands_rig import GATED, MIXED
from tests.rigs.desk import Desk, Ends, at_desk

ENDS = {"good": 0, "bad": 3}


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


async def two_run(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-2", "running")


@at_desk(MIXED, ENDS)
async def test_what_a_verb_did_is_told_with_whom_it_passed_over_and_why(desk: Desk) -> None:
    assert await desk.run() == 1
    answer = await desk.told("retry", "good", "bad", "behind", "-y")
    assert (answer["verb"], names(answer["done"]), answer["note"]) == ("retry", ["good", "bad"], "")
    (refused,) = answer["refused"]
    assert (refused["name"], "`gpudeck explain behind` tells how" in refused["text"]) == ("behind", True)
    assert set(refused) == {"name", "state", "attempt", "text"}


@pytest.mark.parametrize(
    ("words", "text"),
    [(("hold", "wait-3"), "held"), (("priority", "wait-3", "7"), "priority 7"), (("cancel", "wait-3"), "cancelled")],
)
@at_desk(GATED)
async def test_each_verb_tells_its_outcome(desk: Desk, words: tuple[str, ...], text: str) -> None:
    await two_run(desk)
    (done,) = (await desk.told(*words))["done"]
    assert (done["name"], done["text"]) == ("wait-3", text)


@pytest.mark.parametrize("verb", ["release", "accept"])
@at_desk(MIXED, ENDS)
async def test_a_verb_that_comes_to_nothing_has_done_nothing(desk: Desk, verb: str) -> None:
    assert await desk.run() == 1
    answer = await desk.told(verb, "good")
    assert (answer["done"], names(answer["refused"])) == ([], ["good"])


@at_desk(MIXED)
async def test_no_task_that_is_meant_now_is_no_error(desk: Desk) -> None:
    assert await desk.told("accept", "state:stale") == {
        "verb": "accept", "done": [], "refused": [], "note": "no task is state:stale now",
    }  # fmt: skip


@at_desk(MIXED)
async def test_a_mistake_is_told_on_stderr_and_prints_no_object(desk: Desk) -> None:
    done = await desk.command("retry", "nobody", "--json")
    assert (done.code, done.out, done.err.startswith("gpudeck: ")) == (2, "", True)


@at_desk(MIXED)
async def test_check_tells_a_sound_file_and_what_is_wrong_with_another(desk: Desk) -> None:
    sound = await desk.told("check")
    assert (sound["sound"], sound["tasks"], sound["problems"]) == (True, 3, [])
    desk.write(MIXED.replace("needs", "neds"))
    wrong = await desk.told("check", code=2)
    assert (wrong["sound"], len(wrong["problems"])) == (False, 1)
    assert wrong["problems"][0].startswith("tasks.toml:12: ")


@at_desk("""
    [[task]]
    name = "misspelled"
    command = "pyton train.py"
    [[task]]
    name = "elsewhere"
    command = ["python", "trian.py"]
    [[task]]
    name = "made"
    needs = ["misspelled"]
    command = "python made.py"
""")
async def test_check_warns_of_programs_and_scripts_that_are_nowhere(desk: Desk) -> None:
    told = await desk.told("check")
    first, second = told["warnings"]
    assert (told["sound"], first.partition(":")[0], second.partition(":")[0]) == (True, "misspelled", "elsewhere")
    assert ("pyton is not on the task's PATH" in first, "trian.py is not in" in second) == (True, True)


@at_desk(GATED)
async def test_apply_tells_the_plan_and_what_came_of_it(desk: Desk) -> None:
    await two_run(desk)
    desk.write(GATED.replace("[1, 2, 3]", "[1, 2, 4]"))
    plan = await desk.told("apply", "--dry-run")
    assert (plan["dry_run"], plan["changes"], plan["applied"]) == (True, True, None)
    assert plan["plan"]["added"] == ["wait-4"]
    applied = await desk.told("apply", "-y")
    assert (applied["changes"], applied["applied"] is None) == (True, False)
    assert (await desk.told("apply", "-y"))["changes"] is False


@at_desk(MIXED, ENDS)
async def test_wait_tells_who_has_not_succeeded(desk: Desk) -> None:
    await desk.run()
    answer = await desk.told("wait", code=1)
    assert (answer["exit_code"], answer["done"], names(answer["rest"])) == (1, 1, ["bad", "behind"])
    assert await desk.told("wait", "good") == {"exit_code": 0, "done": 1, "rest": []}


@at_desk(GATED)
async def test_pausing_draining_and_stopping_tell_how_the_deck_stands_then(desk: Desk) -> None:
    nothing = {"verb": "pause", "engine": None, "paused": "", "barred": "", "running": 0, "queued": 0}
    assert await desk.told("pause") == nothing
    await two_run(desk)
    pid = os.getpid()
    assert await desk.told("gpus", "drain", "0-1") == {"verb": "drain", "gpus": [0, 1]}
    paused = await desk.told("pause")
    assert paused["paused"].startswith("paused")
    going = {**nothing, "engine": pid, "running": 2, "queued": 1}
    assert {**paused, "paused": ""} == going
    assert await desk.told("unpause") == {**going, "verb": "unpause"}
    assert await desk.told("stop") == {"engine": pid, "running": 2, "stopped": 0}
    assert await desk.told("stop") == {"engine": None, "running": 0, "stopped": 0}
    await desk.start()
    assert (await desk.told("stop", "--tasks", "--now"))["stopped"] == 2


@at_desk(GATED)
async def test_what_was_added_is_told_by_name(desk: Desk) -> None:
    assert await desk.told("add", "--name", "late", "true") == {"added": ["late"]}
    await two_run(desk)
    assert await desk.told("add", "--name", "later", "true") == {"added": ["later"]}


@at_desk(MIXED, ENDS)
async def test_env_is_told_by_name_and_a_refresh_with_what_it_changed(desk: Desk) -> None:
    desk.env["LR"] = "0.1"
    await desk.run()
    assert (await desk.told("env"))["environment"]["LR"] == "0.1"
    desk.env["LR"] = "0.2"
    refreshed = await desk.told("env", "--refresh")
    assert (refreshed["changed"], refreshed["engine"]) == (1, None)


@at_desk(MIXED.replace('name = "bad"', 'name = "bad"\nmetrics.acc.regex = "acc=([0-9.]+)"'))
async def test_metrics_of_what_is_over_are_told_without_an_engine(desk: Desk) -> None:
    desk.ending["bad"] = Ends(3, out="acc=0.5\n")
    await desk.start()
    await desk.until_state("bad", "failed")
    record = desk.folder / "logs/bad/attempt-1.json"
    await desk.until(lambda: record.exists() and '"acc"' in record.read_text())
    assert (await desk.command("stop")).code == 0
    status = await desk.told("status")
    assert (status["engine"], status["failed"][0]["metrics"]) == (None, {"acc": 0.5})
    assert (await desk.row("bad"))["metrics"] == {"acc": 0.5}
