"""Terminals of all kinds, and surroundings that lack something."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
from pathlib import Path

import pytest

from tests.e2e.decks import GPUDECK
from tests.fakes.live_deck import DEADLINE_S
from tests.fakes.pty_screen import PtyScreen
from tests.fakes.tmux_screen import TmuxDeck

pytestmark = pytest.mark.terminal

RUNNING = ("2 running", "1 failed")
STYLE = re.compile(r"\x1b\[([0-9;:]*)m")
COLOUR = re.compile(r"[34]8[;:]2[;:]+(\d+)[;:](\d+)[;:](\d+)|[34]8[;:]5[;:](\d+)|(?<!\d)(?:[349]|10)([0-7])(?!\d)")
GREYS = {0, 7, 8, 15, 16, 59, 102, 145, 188, 231, *range(232, 256)}
"""Of the 256 colours those without a hue."""


@pytest.mark.parametrize("term", ["vt100"])
def test_terminals_without_glyphs_get_ascii_and_states_in_words(deck: TmuxDeck, term: str) -> None:
    screen = deck.screen(f"clear; env TERM={term}", size=(100, 30))
    text = screen.until_seen("* 2 running", "x 1 failed", "x bad", "* long", "this is long")
    assert text.isascii()


STATES = ("● 2 running", "✗ 1 failed", "✗ bad", "● long")


@pytest.mark.parametrize("colours", ["", "COLORTERM=truecolor"])
def test_states_have_colours_of_their_own(deck: TmuxDeck, colours: str) -> None:
    screen = deck.screen(f"clear; env {colours}", size=(100, 30))
    screen.until_seen(*STATES)
    assert len(hues(screen.coloured())) > 1


@pytest.mark.parametrize("colours", ["COLORTERM=truecolor"])
def test_without_colours_states_and_the_row_under_the_cursor_stay_readable(deck: TmuxDeck, colours: str) -> None:
    screen = deck.screen(f"clear; env NO_COLOR=1 {colours}", size=(100, 30))
    screen.until_seen(*STATES)
    assert colours_in(screen.coloured()) == set()
    cursor = next(line for line in screen.coloured().splitlines() if "▌" in line)
    assert any("7" in style.split(";") for style in STYLE.findall(cursor))


def colours_in(shown: str) -> set[str]:
    """Foregrounds and backgrounds that are not the terminal's own."""
    return {
        style
        for style in STYLE.findall(shown)
        if re.search(r"(?:^|;)(?:[349][0-7]|10[0-7]|[34]8;[25];.*)(?:;|$)", style)
    }


def hues(shown: str) -> set[str]:
    """The colours that are no greys."""
    found: set[str] = set()
    for style in STYLE.findall(shown):
        for red, green, blue, number, plain in COLOUR.findall(style):
            if (
                len({red, green, blue}) > 1
                or (number and int(number) not in GREYS)
                or (plain and int(plain) not in GREYS)
            ):
                found.add(style)
    return found


@pytest.mark.parametrize("term", ["TERM=dumb", "-u TERM"])
def test_a_terminal_that_can_nothing_gets_lines(deck: TmuxDeck, term: str) -> None:
    screen = deck.screen(f"env {term}")
    screen.until_seen("status 1/3 done  2 running", "1 failed")
    assert screen.modes()["alternate_on"] == "0"


def test_without_a_terminal_on_stdin_there_are_lines(deck: TmuxDeck) -> None:
    screen = deck.screen("", "< /dev/null")
    screen.until_seen("2 running", "1 failed", "Ctrl-C leaves")
    assert screen.modes()["alternate_on"] == "0"


def test_the_size_is_the_terminals_not_that_of_the_environment(deck: TmuxDeck) -> None:
    screen = deck.screen("clear; env COLUMNS=50 LINES=10")
    screen.until(lambda text: "q leave" in text.splitlines()[-1], "all forty lines are used")
    screen.resize(90, 20)
    screen.until(
        lambda text: "q leave" in text.splitlines()[-1] and len(text.splitlines()) == 20, "all of the new ones"
    )


def test_a_broken_config_is_told_and_stops_nothing(deck: TmuxDeck) -> None:
    deck.configure("theme = \n")
    deck.screen().until_seen(*RUNNING, "config.toml")


@pytest.mark.parametrize("home", ["HOME=/proc/1/nothing", "-u HOME"])
def test_a_home_that_cannot_be_used_is_not_needed(deck: TmuxDeck, home: str) -> None:
    screen = deck.screen(f"env {home}")
    screen.until_seen(*RUNNING)
    screen.press("C-q")
    screen.until_shell()
    assert screen.answer("echo code $?") == "code 0"


def test_a_terminal_without_a_size_is_taken_for_a_usual_one(deck: TmuxDeck) -> None:
    screen = PtyScreen(deck.folder, deck.env, size=(0, 0))
    try:
        screen.until_sent(b" running", b"\x1b[24;1H")
        screen.type(b"q")
        assert screen.wait() == 0
    finally:
        screen.close()


def test_the_line_on_leaving_goes_to_a_full_disk_without_a_traceback(deck: TmuxDeck) -> None:
    screen = deck.screen("clear; ", "2> /dev/full")
    screen.until_seen(*RUNNING)
    screen.press("q")
    screen.until_shell()
    assert screen.answer("echo code $?") == "code 0"


def test_a_terminal_that_is_gone_before_the_line_on_leaving_is_no_traceback(deck: TmuxDeck, tmp_path: Path) -> None:
    terminal, stdout = pty.openpty()
    fcntl.ioctl(stdout, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with (tmp_path / "said").open("wb") as stderr:
        screen = PtyScreen(deck.folder, deck.env, stdout=stdout, stderr=stderr)
    os.close(stdout)
    try:
        shown = b""
        while b" running" not in shown and select.select([terminal], [], [], DEADLINE_S)[0]:
            shown += os.read(terminal, 1 << 16)
        os.close(terminal)
        screen.type(b"q")
        screen.wait()  # 129 where it was seen before the key that nobody is there
    finally:
        screen.close()
    assert (tmp_path / "said").read_text() in ("", "gpudeck: the output cannot be written: Input/output error\n")


def test_a_pipe_on_stdout_is_told_what_to_use(deck: TmuxDeck) -> None:
    shell = deck.terminal()
    shell.until_shell()
    shell.type(f"{GPUDECK} | cat")
    shell.until_seen("there is no terminal here: `gpudeck --headless` runs the deck, a line per event")
