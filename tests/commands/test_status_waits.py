"""What `gpudeck status` says of closed rounds."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "a{{i}}"
    matrix.i = [1, 2]
    command = "exit {{i}}"
    [[task]]
    name = "report"
    round = 1
    round_barrier = "{barrier}"
    command = "true"
"""


@pytest.mark.parametrize(("barrier", "says"), [("succeeded", True), ("ended", False)])
def test_a_round_is_told_as_closed_only_where_something_waits_for_it(deck: Commanded, barrier: str, says: bool) -> None:
    deck.write(DECK.format(barrier=barrier))
    assert deck.run().code == 1
    assert ("round 0 closed by 2 failed" in deck.command("status").out) is says


@at_desk("""
    [[task]]
    name = "first"
    command = ["true"]
    [[task]]
    name = "second"
    round = 1
    command = ["true"]
""")
async def test_of_a_run_that_has_just_ended_nothing_waits(desk: Desk) -> None:
    await desk.start(purpose="start")
    await desk.until_state("first", "running")
    assert "waits for round 0: first" in (await desk.command("status")).out
    await desk.ends("first")
    await desk.ends("second")
    await desk.until_state("second", "succeeded")
    assert "waits" not in (await desk.command("status")).out


@at_desk("""
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "t-{n}"
    matrix.n = [1, 2, 3]
    command = ["true", "{n}"]
""")
async def test_what_waits_is_counted_at_the_moment_of_all_other_counts(desk: Desk) -> None:
    await desk.start(purpose="start")
    await desk.until_state("t-1", "running")
    assert "  2 queued: GPU 0" in (await desk.command("status")).out
    await desk.ends("t-1")
    await desk.until_state("t-2", "running")
    assert "  1 queued: GPU 0" in (await desk.command("status")).out
