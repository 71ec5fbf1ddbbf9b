"""A deck that nobody has started: what is asked for its tasks is noted; nothing of it runs until that is asked for."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "a{i}"
    matrix.i = [1, 2, 3]
    command = "echo {i} >>ran"
"""


@pytest.fixture
def fresh(deck: Commanded) -> Commanded:
    deck.write(DECK)
    return deck


def has_no_engine(deck: Commanded) -> bool:
    return deck.engines_alive() == []


@pytest.mark.parametrize(
    "words",
    [
        "cancel a1",
        "kill a1 -y",
        "hold a1",
        "priority a1 5",
        "hold a1 a2 a3 -y",
        "unpause",
        "release a1",
        "gpus drain 0",
    ],
)
def test_what_is_asked_for_a_task_starts_no_other(fresh: Commanded, words: str) -> None:
    assert fresh.command(*words.split()).code == 0
    until(lambda: has_no_engine(fresh))
    assert fresh.lines("ran") == []


@pytest.mark.parametrize("words", ["cancel a4", "hold a4", "priority a4 5", "accept a1", "gpus drain 0"])
def test_nor_does_it_start_what_came_into_the_file_after_a_run_had_ended(fresh: Commanded, words: str) -> None:
    fresh.run()
    fresh.write(DECK.replace("[1, 2, 3]", "[1, 2, 3, 4, 5]"))
    fresh.command(*words.split())
    until(lambda: has_no_engine(fresh))
    assert sorted(fresh.lines("ran")) == ["1", "2", "3"]


@at_desk(DECK)
async def test_a_deck_of_which_something_was_noted_is_said_to_have_no_run_yet(desk: Desk) -> None:
    assert (await desk.command("hold", "a1")).code == 0
    await desk.leave()
    assert "none of its runs has begun: `gpudeck start` begins one" in (await desk.command("status")).err


def test_what_was_asked_for_holds_once_the_deck_is_started(fresh: Commanded) -> None:
    assert fresh.command("cancel", "a1").code == 0
    assert fresh.command("hold", "a2").code == 0
    assert fresh.command("start").code == 0
    until(lambda: fresh.lines("ran") == ["3"])
    assert {name: (row["state"], row["held"]) for name, row in fresh.rows().items()} == {
        "a1": ("cancelled", False),
        "a2": ("queued", True),
        "a3": ("succeeded", False),
    }


def test_the_task_that_is_named_is_told_and_so_is_how_to_start_the_rest(fresh: Commanded) -> None:
    told = fresh.command("cancel", "a1")
    assert "cancel: a1 (cancelled)" in told.out
    assert "`gpudeck start` runs the deck" in told.err


def test_start_runs_the_deck_in_the_background(fresh: Commanded) -> None:
    told = fresh.command("start")
    assert (told.code, f"engine {fresh.engine_pid()} runs" in told.out) == (0, True)
    until(lambda: len(fresh.lines("ran")) == 3)
