"""Acting on tasks that have ended, or whose backoff is over, while no engine ran."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "fails"
    command = "echo ran >>ran; read _ <gate; exit 1"
"""
TWICE = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "fails"
    command = "false"
    retries = 2
    backoff = "1m"
    [[task]]
    name = "long"
    command = "true"
"""


@pytest.fixture
def unseen(deck: Commanded) -> Commanded:
    """It has failed, and no engine knows it yet."""
    deck.write(DECK)
    gate = deck.gate()
    assert deck.command("start").code == 0
    until(lambda: deck.lines("ran"))
    assert deck.command("stop").code == 0
    gate.let()
    until(lambda: "has ended; the next engine" in deck.command("ls").out)
    return deck


def test_what_has_failed_unseen_runs_again_at_once(unseen: Commanded) -> None:
    done = unseen.command("retry", "fails")
    assert (done.code, done.out) == (0, "retry: fails (attempt 2 is running)\n"), done.err
    unseen.command("stop", "--tasks", "--now")


def test_what_has_failed_unseen_is_found_by_its_state(unseen: Commanded) -> None:
    done = unseen.command("retry", "state:failed")
    assert (done.code, done.out) == (0, "retry: fails (attempt 2 is running)\n"), done.err
    unseen.command("stop", "--tasks", "--now")


def test_a_state_that_nothing_is_in_starts_nothing_beside_what_has_ended_unseen(unseen: Commanded) -> None:
    done = unseen.command("retry", "state:succeeded")
    assert (done.code, "no task" in done.out) == (0, True), done.err
    until(lambda: unseen.engines_alive() == [])
    assert unseen.lines("ran") == ["ran"]


def test_what_has_failed_unseen_is_not_cancelled_and_stays_failed(unseen: Commanded) -> None:
    done = unseen.command("cancel", "fails")
    assert (done.code, "fails has failed: only what has not ended can be cancelled" in done.err) == (2, True)
    until(lambda: unseen.engines_alive() == [])
    assert unseen.command("start").code == 0
    assert unseen.state("fails") == "failed"


@at_desk(TWICE, {"fails": 1})
async def test_what_waited_for_its_next_attempt_while_no_engine_ran_starts_at_once(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("fails", "backoff")
    await desk.until_state("long", "running")
    await desk.leave()
    desk.clock.boot_s += 100
    done = await desk.command("retry", "fails")
    assert (done.code, done.out.startswith("retry: fails (attempt 2 ")) == (0, True), done.err


@at_desk(TWICE, {"fails": 0})
async def test_a_retry_of_what_the_run_leaves_out_starts_no_engine(desk: Desk) -> None:
    await desk.start("--only", "long")
    await desk.until_state("long", "running")
    await desk.leave()
    done = await desk.command("retry", "fails")
    assert (done.code, "left out of this run" in done.err) == (2, True)
    assert (desk.engines, desk.started) == (1, ["long"])
