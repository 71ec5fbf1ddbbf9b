"""Keys that arrive at once go where the ones before them lead, also where that is still being opened."""

from __future__ import annotations

import pytest

from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen

pytestmark = pytest.mark.terminal


def at_once(screen: TmuxScreen, keys: str) -> None:
    screen.tmux("send-keys", "-l", keys)


def test_keys_typed_at_once_go_where_the_ones_before_them_lead(screen: TmuxScreen) -> None:
    at_once(screen, "/failed")
    screen.until_seen("/failed", "no task matches", "2 running")
    screen.press("Escape")
    screen.until(lambda text: "no task matches" not in text, "all are shown again")
    at_once(screen, "gjj")
    screen.press("l")
    screen.until_seen("x first error", "this is")
    at_once(screen, "/lolol")
    screen.until_seen("lolol", "this is")


def under_cursor(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("▌")]


def test_pages_and_the_palette_take_what_is_typed_with_the_key_that_opens_them(screen: TmuxScreen) -> None:
    first = under_cursor(screen.text())
    at_once(screen, "etoeettj")  # back at the table, and on to the next task
    screen.until(lambda text: under_cursor(text) not in ([], first), "the cursor moves")
    screen.until_seen("l log", "space mark", "q leave")
    assert "retry all" not in screen.text(), "the footer is that of the last page"
    at_once(screen, "e/")
    screen.until_seen("1 of 3", "q leave")
    at_once(screen, ":copy table")
    screen.until_seen("Copy the table as it is shown", "copy table")


def test_a_key_typed_right_behind_a_click_acts_on_the_task_that_was_clicked(screen: TmuxScreen) -> None:
    lines = screen.text().splitlines()
    last = max(place for place, line in enumerate(lines) if line.split()[1:3] == ["running", "later"])
    at_once(screen, f"\x1b[<0;20;{last + 1}M\x1b[<0;20;{last + 1}md")
    screen.until_seen("● running  later", "Command")


# -- a question and its answer in one read of the terminal ------------------------------------------------------------


@pytest.mark.parametrize(("keys", "asked"), [("gcc", "Cancel long?"), ("gKK", "Kill long at once?")])
def test_the_key_that_asks_does_not_answer_and_the_question_stays(
    deck: TmuxDeck, screen: TmuxScreen, keys: str, asked: str
) -> None:
    at_once(screen, keys)
    screen.until_seen(asked)
    at_once(screen, keys[-1] * 3 + "\r")
    screen.until(lambda text: asked not in text, "enter answers: it goes on")
    deck.until_task("long", "running")


@pytest.mark.parametrize("keys", ["gccy", "gKy"])
def test_an_answer_typed_ahead_is_an_answer(deck: TmuxDeck, screen: TmuxScreen, keys: str) -> None:
    at_once(screen, keys)
    deck.until_task("long", "cancelled")
