"""Engines, screens and terminals that end in every way; tasks never do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.pty_screen import PtyScreen
from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen
from tests.inside.tui import proc

pytestmark = pytest.mark.terminal

RUNNING = ("2 running", "1 failed")


OnPty = Callable[..., PtyScreen]


@pytest.fixture
def on_pty(deck: TmuxDeck) -> Iterator[OnPty]:
    """Opens the deck on a bare terminal, when its tasks run."""
    opened: list[PtyScreen] = []

    def on(*words: str, **options: Any) -> PtyScreen:
        screen = PtyScreen(deck.folder, deck.env, *words, **options)
        opened.append(screen)
        screen.until_sent(b" running", b" failed", b"leave")
        return screen

    yield on
    for screen in opened:
        screen.close()


def started_once(deck: TmuxDeck) -> bool:
    return sorted(deck.ran()) == ["bad", "later", "long"]


@pytest.mark.parametrize("ends", ["killed", "its window closed"])
def test_a_screen_that_ends_leaves_the_deck_running_and_a_new_one_shows_it(
    deck: TmuxDeck, screen: TmuxScreen, ends: str
) -> None:
    engine = deck.holder()
    (pid,) = screen.screens()
    started = proc.stat(pid)
    assert started is not None
    if ends == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        screen.close_window()
    deck.until(lambda: not proc.is_live(pid, started.start_ticks), "the screen is gone")
    again = deck.screen()
    again.until_seen(*RUNNING, "live")
    assert deck.holder() == engine
    assert started_once(deck)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_screen_alone_and_gives_the_terminal_back(
    deck: TmuxDeck, on_pty: OnPty, number: signal.Signals, code: int
) -> None:
    screen = on_pty(owns=False)
    screen.process.send_signal(number)
    assert screen.wait() == code
    assert screen.modes() == list(screen.modes_before)
    screen.until_sent(b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l")
    assert b"Traceback" not in screen.received
    assert started_once(deck)
    deck.until_task("long", "running")


@pytest.mark.parametrize("owns", [True, False], ids=["with SIGHUP", "without"])
def test_a_terminal_that_goes_away_ends_the_screen_and_nothing_else(deck: TmuxDeck, on_pty: OnPty, owns: bool) -> None:
    with open(deck.folder / "said", "wb") as said:
        screen = on_pty(owns=owns, stderr=said)
    screen.hang_up()
    assert screen.wait() == 129
    assert (deck.folder / "said").read_bytes() == b""
    deck.until_task("long", "running")
    assert started_once(deck)


def test_a_terminal_that_goes_away_while_it_is_drawn_on_ends_the_screen(deck: TmuxDeck, on_pty: OnPty) -> None:
    with open(deck.folder / "said", "wb") as said:
        screen = on_pty(owns=False, stderr=said)
    screen.freeze()
    for step in range(40):
        screen.resize(60 + step, 20 + step)
    screen.hang_up()
    assert screen.wait() == 129
    assert (deck.folder / "said").read_bytes() == b""


def test_a_terminal_that_takes_nothing_does_not_keep_the_screen_from_ending(on_pty: OnPty) -> None:
    screen = on_pty(owns=False)
    screen.freeze()
    for step in range(40):
        screen.resize(100 + step, 40 + step)
    screen.process.send_signal(signal.SIGTERM)
    assert screen.wait() == 143
    assert screen.modes() == list(screen.modes_before)
