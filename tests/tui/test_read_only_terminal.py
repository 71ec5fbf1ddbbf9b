"""`gpudeck --read-only` on a terminal, and where the screen is refused that it is offered in place of."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import GPUDECK
from tests.fakes.tmux_screen import TmuxDeck, tmux_deck
from tests.tui.read_only_rig import MIXED, finish

pytestmark = pytest.mark.terminal

WIDE = (240, 40)
"""A line that is refused with is not wrapped."""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[TmuxDeck]:
    with tmux_deck(tmp_path, MIXED) as deck:
        finish(deck)
        yield deck


@pytest.mark.parametrize("text", ["[deck\n", None])
def test_a_deck_that_cannot_be_opened_names_it(deck: TmuxDeck, text: str | None) -> None:
    if text is None:
        (deck.folder / "tasks.toml").unlink()
    else:
        deck.write(text)
    screen = deck.screen(size=WIDE)
    screen.until_seen("`gpudeck --read-only` shows the deck as it was")


def test_where_nothing_can_be_shown_it_is_not_offered(tmp_path: Path) -> None:
    with tmux_deck(tmp_path, "[deck\n") as deck:
        screen = deck.screen()
        screen.until_seen("tasks.toml:1")
        screen.until_shell()
        assert "--read-only" not in screen.text()


def test_a_mistaken_option_is_told_alone(deck: TmuxDeck) -> None:
    screen = deck.screen(options="--only nothing-of-that-name", size=WIDE)
    screen.until_seen("--only nothing-of-that-name: no task matches")
    screen.until_shell()
    assert "--read-only" not in screen.text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--read-only needs a terminal"),
        (("--headless",), "does not go with --headless"),
        (("--takeover",), "does not go with --takeover"),
    ],
)
def test_what_it_cannot_be_is_refused_and_nothing_is_started(deck: TmuxDeck, words: tuple[str, ...], said: str) -> None:
    argv = (GPUDECK, "--read-only", *words)
    done = subprocess.run(argv, cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert said in done.stderr
    assert not deck.holder()
