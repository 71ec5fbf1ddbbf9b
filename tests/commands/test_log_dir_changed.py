"""A log folder of another name in the task file loses no log of attempts that began before."""

from __future__ import annotations

import json

from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:2"
    log_dir = "first"
    [[task]]
    name = "bad"
    command = "x"
    [[task]]
    name = "long"
    command = "y"
"""


async def moved(desk: Desk) -> None:
    """`bad` has failed once, `long` runs; the file says another folder, and no engine runs."""
    await desk.start()
    await desk.ends("bad", 3, out="what was first\n")
    await desk.until_state("bad", "failed")
    await desk.until_state("long", "running")
    await desk.leave()
    desk.write(DECK.replace('"first"', '"second"'))


@at_desk(DECK)
async def test_logs_of_earlier_attempts_are_found_without_an_engine(desk: Desk) -> None:
    await moved(desk)
    assert (await desk.command("logs", "bad", "--attempt", "1")).out == "what was first\n"
    assert "first/bad/attempt-1.log" in (await desk.command("show", "bad")).out
    assert "what was first" in (await desk.command("status", "--failed")).out


@at_desk(DECK)
async def test_an_engine_finds_them_too_and_begins_new_ones_in_the_new_folder(desk: Desk) -> None:
    await moved(desk)
    await desk.start()
    assert (await desk.command("retry", "bad")).code == 0
    await desk.ends("bad", 3, out="what was second\n")
    for live in (True, False):
        assert (await desk.command("logs", "bad", "--attempt", "1")).out == "what was first\n", live
        assert (await desk.command("logs", "bad")).out == "what was second\n", live
        shown = (await desk.command("show", "bad")).out
        assert ("first/bad/attempt-1.log" in shown, "second/bad/attempt-2.log" in shown) == (True, True), live
        await desk.leave()


@at_desk(DECK)
async def test_an_attempt_that_runs_meanwhile_goes_on_where_it_began(desk: Desk) -> None:
    await moved(desk)
    await desk.start()
    await desk.ends("long")
    await desk.until_state("long", "succeeded")
    await desk.leave()
    assert json.loads(desk.text("first/long/attempt-1.json"))["end"]["kind"] == "ok"
    assert not (desk.folder / "second" / "long").exists()
