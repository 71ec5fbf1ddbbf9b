"""What the screen sends to its terminal while tasks run, and how it starts and ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.pty_screen import PtyScreen
from tests.fakes.tmux_screen import TmuxDeck, tmux_deck

pytestmark = pytest.mark.terminal

BUSY = """
[deck]
gpus = "sim:4"
slots_per_gpu = 2
[[task]]
name = "busy-{i}"
matrix.i = [1, 2, 3, 4, 5, 6, 7, 8]
command = "i=0; while :; do i=$((i+1)); echo step $i/100000 loss=0.$i; echo >> lines; sleep 0.1; done"
"""
SIZE = (120, 40)


class BusyDeck:
    def __init__(self, deck: TmuxDeck, screen: PtyScreen) -> None:
        self.deck, self.screen = deck, screen
        self._lines = deck.folder / "lines"

    def sent_while(self, lines: int) -> bytes:
        """What is sent until the tasks have written so many lines more."""
        before, since = self._size(), len(self.screen.received)
        self.deck.until(lambda: self._size() >= before + lines, "the tasks go on")
        return bytes(self.screen.received[since:])

    def _size(self) -> int:
        return self._lines.stat().st_size if self._lines.exists() else 0


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[BusyDeck]:
    with tmux_deck(tmp_path, BUSY) as deck:
        screen = PtyScreen(deck.folder, deck.env, size=SIZE)
        try:
            screen.until_sent(b" running", b"busy-8", b"loss")
            yield BusyDeck(deck, screen)
        finally:
            screen.close()


def test_a_screen_under_a_dialog_sends_nothing_and_goes_on_when_it_is_seen_again(busy: BusyDeck) -> None:
    screen = busy.screen
    since = len(screen.received)
    screen.type(b"?")
    screen.until_sent(b"esc: back", since=since)
    busy.sent_while(40)  # what was on its way
    assert busy.sent_while(200) == b""
    since = len(screen.received)
    screen.type(b"\x1b")
    screen.until_sent(b"busy-8", since=since)
    assert busy.sent_while(100) != b""


def test_over_a_slow_line_the_chosen_refresh_spares_most_of_it(busy: BusyDeck) -> None:
    busy.deck.configure("refresh = 5.0\n")
    slow = PtyScreen(busy.deck.folder, busy.deck.env, size=SIZE)
    try:
        slow.until_sent(b" running", b"busy-8", b"loss")
        before = len(slow.received)
        sent = len(busy.sent_while(1200))
        assert len(slow.received) - before < sent / 2
    finally:
        slow.close()


def test_a_terminal_that_came_back_is_drawn_whole_though_nothing_has_changed(busy: BusyDeck) -> None:
    screen = busy.screen
    since = len(screen.received)
    screen.resize(*SIZE)
    screen.resize(SIZE[0] - 1, SIZE[1])
    screen.resize(*SIZE)
    screen.until_sent(b"busy-1", b"busy-8", b"leave", since=since)


def test_the_process_ends_at_once_when_the_terminal_is_as_it_was(tmp_path: Path) -> None:
    with tmux_deck(tmp_path, BUSY) as deck:
        hooks = deck.folder / "hooks"
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(
            "import atexit, os, pathlib\n"
            "atexit.register(lambda: pathlib.Path(__file__).with_name(f'{os.getpid()}.ended').touch())\n"
        )
        screen = PtyScreen(deck.folder, {**deck.env, "PYTHONPATH": str(hooks)}, size=SIZE)
        screen.until_sent(b" running")
        screen.type(b"q")
        assert screen.wait() == 0
        screen.until_sent(b"\x1b[?1049l", b"ends it")
        assert screen.modes() == list(screen.modes_before)
        assert (hooks / "__pycache__").exists() or (hooks / "sitecustomize.py").exists()
        assert not (hooks / f"{screen.process.pid}.ended").exists()
        screen.close()
