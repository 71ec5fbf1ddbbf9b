"""`gpudeck engine` as cron starts it: for the deck that its options mean, and for nobody who looks."""

from __future__ import annotations

from tests.commands.commands_rig import MIXED
from tests.rigs.desk import Desk, Ends, at_desk

DECK = """
    [deck]
    gpus = "sim:1"
    [vars]
    word = "plain"
    to = "here"
    [profile.night]
    vars = { word = "night" }
    [[task]]
    name = "say"
    command = "echo {word} >>{to}"
"""


@at_desk(DECK, {"say": 0})
async def test_an_engine_without_a_client_runs_the_deck_of_its_profile_with_its_values(desk: Desk) -> None:
    await desk.serve("engine", "--profile", "night", "tasks.toml", "to=there")
    await desk.until_state("say", "succeeded")
    assert "echo night >>there" in desk.order("say").argv[-1]
    await desk.later(9)
    assert desk.runs
    await desk.later(1)
    assert await desk.over() == 0


@at_desk(MIXED, {"good": Ends(), "bad": Ends(3)})
async def test_deck_log_says_that_a_run_goes_on_only_of_one_that_had_not_ended(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    await desk.leave()
    assert (await desk.command("start")).code == 0
    await desk.leave()
    opened = [line for line in desk.text("logs/deck.log").splitlines() if " open  " in line]
    assert [("run 1" in line, "goes on" in line) for line in opened] == [(True, False)]
