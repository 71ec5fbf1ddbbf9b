"""Keys that arrive at once go where the ones before them lead, also where that is still being opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen, kinds_deck


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[TmuxScreen]:
    with kinds_deck(tmp_path) as deck:
        yield _opened(deck)


def _opened(deck: TmuxDeck) -> TmuxScreen:
    screen = deck.screen()
    screen.until(lambda text: "2 running" in text and "1 failed" in text, "the tasks run")
    return screen


def at_once(screen: TmuxScreen, keys: str) -> None:
    screen.tmux("send-keys", "-l", keys)


def test_a_filter_typed_at_once_is_a_filter(screen: TmuxScreen) -> None:
    at_once(screen, "/failed")
    screen.until_seen("/failed", "no task matches", "2 running")


def test_a_log_and_a_search_in_it_can_be_typed_at_once(screen: TmuxScreen) -> None:
    at_once(screen, "gl/lolol")
    screen.until_seen("lolol", "this is")


def test_a_page_and_a_key_on_it_can_be_typed_at_once(screen: TmuxScreen) -> None:
    at_once(screen, "e/")
    screen.until_seen("1 of 3", "q leave")


def test_the_palette_and_words_for_it_can_be_typed_at_once(screen: TmuxScreen) -> None:
    at_once(screen, ":copy table")
    screen.until_seen("What the table shows, tab-separated", "copy table")


def test_pages_in_a_row_end_with_the_footer_of_the_last(screen: TmuxScreen) -> None:
    at_once(screen, "etoeett")
    screen.until_seen("l log", "space mark", "q leave")
    assert "retry all" not in screen.text()
