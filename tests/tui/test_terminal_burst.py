"""A question and its answer in one burst, as a pasted or typed-ahead word arrives: in one read of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen, tmux_deck

pytestmark = pytest.mark.terminal

DECK = """
[deck]
gpus = "sim:1"
[[task]]
name = "long"
command = ["sleep", "1000"]
grace = "1s"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[TmuxDeck]:
    with tmux_deck(tmp_path, DECK) as deck:
        yield deck


@pytest.fixture
def screen(deck: TmuxDeck) -> TmuxScreen:
    screen = deck.screen()
    screen.until_seen("1 running", "live")
    return screen


def at_once(screen: TmuxScreen, keys: str) -> None:
    screen.tmux("send-keys", "-l", keys)


def state(deck: TmuxDeck) -> str:
    with deck.client() as client:
        return client.wait_for_picture().by_name()["long"].state


@pytest.mark.parametrize(("keys", "asked"), [("gcc", "Cancel long?"), ("gKK", "Kill long at once?")])
def test_the_key_that_asks_does_not_answer_and_the_question_stays(
    deck: TmuxDeck, screen: TmuxScreen, keys: str, asked: str
) -> None:
    at_once(screen, keys)
    screen.until_seen(asked)
    at_once(screen, keys[-1] * 3 + "\r")
    screen.until(lambda text: asked not in text, "enter answers: it goes on")
    assert state(deck) == "running"


@pytest.mark.parametrize("keys", ["gccy", "gKy"])
def test_an_answer_typed_ahead_is_an_answer(deck: TmuxDeck, screen: TmuxScreen, keys: str) -> None:
    at_once(screen, keys)
    deck.until_task("long", "cancelled")
