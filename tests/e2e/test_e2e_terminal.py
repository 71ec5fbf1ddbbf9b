"""A run on a terminal: the live display, and a terminal that goes away."""

from __future__ import annotations

from tests.commands.commands_rig import typed
from tests.e2e.decks import Deck, until

GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1, 2]
    command = '''printf '\\033]0;owned\\007 step {i}/3\\r' ; echo {i} >>ran; read _ <gate'''
"""
RUN = ("--headless", "tasks.toml", "-v")


def test_a_run_on_a_terminal_ends_as_elsewhere_and_nothing_that_a_task_writes_commands_it(deck: Deck) -> None:
    deck.write(GATED)
    deck.gate().let(3)
    with typed(deck, *RUN) as terminal:
        assert terminal.finish() == 0
        assert "3 succeeded" in terminal.shown
        assert not [bad for bad in ("\x1b]", "\x07") if bad in terminal.shown]
        assert terminal.shown.count("\x1b[?25l") <= terminal.shown.count("\x1b[?25h")


def test_ctrl_c_stops_the_tasks_and_exits_with_130(deck: Deck) -> None:
    deck.write(GATED)
    deck.gate()
    with typed(deck, *RUN) as terminal:
        until(lambda: len(deck.lines("ran")) == 2)
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert deck.living() == []


def test_a_closed_terminal_stops_nothing(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, *RUN) as terminal:
        until(lambda: len(deck.lines("ran")) == 2)
        terminal.hang_up()
        until(lambda: "terminal is gone" in deck.text("logs/deck.log"))
        gate.let(3)
        assert terminal.finish() == 0
    assert len(deck.lines("ran")) == 3
