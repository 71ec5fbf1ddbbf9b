"""Decks of many tasks: places in the queue are kept to, and a killed engine's arrays run once."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections import Counter
from itertools import accumulate

import pytest

from tests.e2e.decks import Deck, Ran, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

PLACES = 6
TASKS = 48
KILLS = 10


def numbers(count: int) -> str:
    return ", ".join(map(str, range(count)))


def most_at_once(ran: Ran) -> int:
    """How many attempts were with Slurm at a time."""
    steps = {"task_submitted": 1, "task_ended": -1}
    return max(accumulate(steps.get(event["event"], 0) for event in ran.events))


@pytest.mark.parametrize("array", ["false", "true"])
def test_no_more_jobs_are_submitted_at_once_than_may_be_whatever_fails_and_is_repeated(
    deck: Deck, cluster: Cluster, array: str
) -> None:
    deck.write(f"""
        [deck]
        backend = "slurm"
        [slurm]
        array = {array}
        max_submitted = {PLACES}
        [defaults]
        gpus = 0
        retries = 1
        backoff = 0
        [[task]]
        name = "good-{{i}}"
        matrix.i = [{numbers(TASKS)}]
        command = "[ -e open ] || read _ <gate; [ $(({{i}} % 8)) != 3 ] || [ $GPUDECK_ATTEMPT = 2 ]"
        [[task]]
        name = "bad-{{i}}"
        matrix.i = [0, 1, 2]
        command = "exit 2"
        [[task]]
        name = "behind-{{i}}"
        matrix.i = [3, 11]
        needs = ["good-{{i}}"]
        command = "true"
    """)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: f"{PLACES} of {PLACES} jobs are submitted" in deck.command("explain", f"good-{TASKS - 1}").out)
    until(lambda: len(cluster.active()) == PLACES)
    (deck.folder / "open").touch()
    gate.let(PLACES)
    ran = engine.finish()
    assert ran.code == 1, ran.out + ran.err
    assert Counter(ran.states.values()) == {"succeeded": TASKS + 2, "failed": 3}
    assert most_at_once(ran) == PLACES
    assert sum(row["attempts"] for row in ran.rows.values()) == TASKS + 6 + 2 + 6


def test_however_often_an_engine_that_submits_arrays_is_killed_every_task_runs_once(
    deck: Deck, cluster: Cluster
) -> None:
    dice = random.Random(0)
    deck.write(f"""
        [deck]
        backend = "slurm"
        [slurm]
        array = true
        max_submitted = {PLACES}
        [[task]]
        name = "t-{{i}}"
        matrix.i = [{numbers(TASKS)}]
        gpus = 0
        command = "echo {{i}} >>ran"
    """)
    for _ in range(KILLS):
        engine = deck.start()
        engine.event("deck_opened")
        with contextlib.suppress(subprocess.TimeoutExpired):  # arrays are gathered for 0.2 s, and then submitted
            engine.process.wait(dice.uniform(0.1, 0.6))
        engine.kill()
    ran = deck.run()
    assert ran.code == 0, ran.out + ran.err
    until(lambda: not cluster.active())
    assert Counter(deck.lines("ran")) == Counter(map(str, range(TASKS)))


def test_what_slurm_dropped_since_its_need_failed_is_blocked_for_the_engine_that_takes_over(
    deck: Deck, cluster: Cluster
) -> None:
    deck.write("""
        [deck]
        backend = "slurm"
        [defaults]
        gpus = 0
        [[task]]
        name = "bad"
        command = "exit 3"
        [[task]]
        name = "needing-{i}"
        matrix.i = [1, 2]
        needs = ["bad"]
        command = "echo ran >>ran"
    """)
    assert deck.command("submit", "--go").code == 0
    until(lambda: not cluster.active())
    ran = deck.run()
    assert ran.states == {"bad": "failed", "needing-1": "blocked", "needing-2": "blocked"}
    assert deck.lines("ran") == []
