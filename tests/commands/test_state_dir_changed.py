"""Another state folder in the task file begins the deck anew: that is said, and what runs does not run twice."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = "echo up >>ups; read _ <gate"
"""
ELSEWHERE = DECK.replace("[deck]", '[deck]\n    state_dir = "elsewhere"')


@at_desk(DECK)
async def test_a_start_says_once_where_the_state_of_before_lies(desk: Desk) -> None:
    await desk.start()
    await desk.ends("long", 3)
    await desk.leave()
    desk.write(ELSEWHERE)
    for _ in range(2):
        await desk.start()
        await desk.leave()
    said = desk.text("logs/deck.log")
    assert said.count(f"begins anew in {desk.folder}/elsewhere/tasks: its state of before lies in") == 1
    assert f"lies in {desk.folder}/.gpudeck/tasks" in said


@pytest.mark.parametrize("engine", ["alive", "ended"])
def test_no_start_runs_a_second_time_what_runs_under_the_state_of_before(deck: Commanded, engine: str) -> None:
    gate = deck.gate()
    deck.write(DECK)
    assert deck.command("start").code == 0
    deck.until_state("long", "running")
    if engine == "ended":
        assert deck.command("stop").code == 0
    deck.write(ELSEWHERE)
    refused = deck.command("start")
    assert (refused.code, "1 task of it still runs: set state_dir back" in refused.err) == (2, True)
    assert not (deck.folder / "elsewhere").exists()
    deck.write(DECK)
    gate.let()
    assert deck.command("start").code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ups") == ["up"]


@pytest.mark.parametrize("engine", ["alive", "ended"])
def test_nor_once_both_folders_have_a_state(deck: Commanded, engine: str) -> None:
    deck.write(ELSEWHERE.replace("read _ <gate", "true"))
    assert deck.run().code == 0
    deck.write(DECK.replace("read _ <gate", "true"))
    assert deck.run().code == 0
    assert deck.lines("ups") == ["up", "up"]
    gate = deck.gate()
    deck.write(ELSEWHERE)
    assert deck.command("retry", "long").code == 0
    deck.until_state("long", "running")
    if engine == "ended":
        assert deck.command("stop").code == 0
    deck.write(DECK)
    refused = deck.command("start")
    assert "elsewhere/tasks, and 1 task of it still runs: set state_dir back" in refused.err
    assert refused.code == 2
    assert deck.run().code == 2
    deck.write(ELSEWHERE)
    gate.let()
    assert deck.command("start").code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ups") == ["up", "up", "up"]


@pytest.mark.parametrize("said", ["./state", "state/../state"])
def test_a_state_that_is_said_another_way_is_no_other_one(deck: Commanded, said: str) -> None:
    gate = deck.gate()
    (deck.folder / "state").mkdir()
    deck.write(DECK.replace("[deck]", f'[deck]\n    state_dir = "{said}"'))
    assert deck.command("start").code == 0
    deck.until_state("long", "running")
    assert deck.command("stop").code == 0
    again = deck.command("start")
    assert again.code == 0, again.err
    gate.let()
    assert deck.command("wait").code == 0
    assert deck.lines("ups") == ["up"]
