"""`gpudeck` as users have it: typed into a shell, keys pressed, the terminal looked at."""

from __future__ import annotations

import pytest

from tests.e2e.decks import GPUDECK
from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen

pytestmark = pytest.mark.terminal

TASKS = ("long", "bad", "later")

CLEAN = {"alternate_on": "0", "mouse_any_flag": "0", "mouse_sgr_flag": "0", "cursor_flag": "1"}
"""A terminal that a program has left as it was."""


def go_to(screen: TmuxScreen, name: str) -> None:
    """Move the cursor to the task *name*: to the first row, then down as far as the table shows it."""
    screen.press("g")
    text = screen.until(lambda text: cursor_on(text) == "long", "the cursor on the first row")
    below = text[text.index("▌") :].splitlines()
    screen.press(*["j"] * next(row for row, line in enumerate(below) if f" {name} " in line))
    screen.until(lambda text: cursor_on(text) == name, f"the cursor on {name}")


def cursor_on(text: str) -> str | None:
    """The task whose row has the cursor."""
    rows = [line.split() for line in text.splitlines() if line.startswith("▌")]
    return next((name for row in rows for name in row if name in TASKS), None)


def is_clean(screen: TmuxScreen) -> bool:
    modes = screen.modes()
    return {name: modes[name] for name in CLEAN} == CLEAN


def test_what_is_pressed_in_a_terminal_reaches_the_tasks(deck: TmuxDeck, screen: TmuxScreen) -> None:
    text = screen.until_seen("this is long", "q leave", "live")
    assert all(name in text for name in ("long", "bad", "later", "exit 3"))

    (deck.folder / "good").touch()
    go_to(screen, "bad")
    screen.press("r")
    screen.until_seen("1 succeeded")
    assert deck.ran().count("bad") == 2

    go_to(screen, "later")
    screen.press("c")
    screen.until_seen("Cancel later?")
    screen.press("Enter")
    screen.until(lambda text: "Cancel later?" not in text, "the dialog closes")
    screen.press("C-c")
    screen.until_seen("q leaves, and stops nothing")
    deck.until_task("later", "running")
    screen.press("c")
    screen.until_seen("Cancel later?")
    screen.press("y")
    screen.until_seen("1 cancelled")
    deck.until_task("later", "cancelled")
    deck.until_task("long", "running")


def test_leaving_says_one_line_stops_nothing_and_exits_with_0(deck: TmuxDeck, screen: TmuxScreen) -> None:
    screen.press("q")
    said = [line for line in screen.until_shell().splitlines() if "goes on" in line]
    assert len(said) == 1
    assert screen.answer("echo code $?") == "code 0"
    assert is_clean(screen)
    deck.until_task("long", "running")


def test_ctrl_z_gives_the_shell_back_and_fg_the_screen(screen: TmuxScreen) -> None:
    screen.press("C-z")
    screen.until_seen("Stopped")
    assert is_clean(screen)
    screen.type("fg")
    screen.until_seen("2 running", "q leave")
    screen.press("q")
    screen.until_shell()
    assert is_clean(screen)


def test_ctrl_z_where_nobody_could_bring_it_back_changes_nothing(deck: TmuxDeck) -> None:
    alone = deck.terminal(command=(GPUDECK,))
    alone.until_seen("2 running")
    alone.press("C-z")

    def answers(text: str) -> bool:  # what is typed before it is back is dropped; Ctrl-C would still end it
        alone.press("/")
        return "filter" in text.lower()

    alone.until(answers, "it takes keys")


def test_a_storm_of_resizes_ends_with_a_whole_picture(screen: TmuxScreen) -> None:
    for step in range(60):
        screen.resize(20 + step * 37 % 160, 4 + step * 13 % 50)
    screen.resize(100, 30)
    screen.until(
        lambda text: (
            len(lines := text.splitlines()) == 30
            and lines[0].rstrip().endswith("live")
            and "2 running" in lines[0]
            and "q leave" in lines[-1]
            and "this is long" in text
        ),
        "a whole picture",
    )
