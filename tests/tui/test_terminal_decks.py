"""Decks of all kinds on a real terminal: finished, elsewhere, frozen, broken, huge, hostile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.decks import GPUDECK
from tests.fakes.hostile_logs import HOSTILE_LINES, dangers
from tests.fakes.pty_screen import PtyScreen
from tests.fakes.tmux_screen import TmuxDeck, tmux_deck

pytestmark = pytest.mark.terminal


def test_what_cannot_be_opened_gives_one_line_and_exit_code_2(deck: TmuxDeck) -> None:
    deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "true"\ngpu = 1\n')
    shell = deck.screen()
    shell.until(lambda text: "tasks.toml:6: " in (line := text.replace("\n", "")) and "gpus?" in line, "the line")
    assert shell.answer("echo code $?") == "code 2"
    assert shell.modes()["alternate_on"] == "0"

    (deck.folder / "tasks.toml").unlink()
    shell.type(f"clear; {GPUDECK}")
    shell.until_seen("gpudeck init")
    assert shell.answer("echo code $?") == "code 2"

    deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "true"\nenabled = false\n')
    shell.type(f"clear; {GPUDECK}")
    text = shell.until_seen("no task is enabled")
    assert "Traceback" not in text


def test_ten_thousand_tasks_are_walked_through(tmp_path: Path) -> None:
    first, second = list(range(100)), list(range(100, 200))
    text = f"""
        [deck]
        gpus = "sim:4"
        [[task]]
        name = "t-{{a}}-{{b}}"
        matrix = {{ a = {first}, b = {second} }}
        command = "sleep 1000"
    """
    with tmux_deck(tmp_path, text) as deck:
        screen = deck.screen()
        screen.until_seen("4 running", "9,996 queued", "t-0-100")
        screen.press("G")
        screen.until_seen("t-99-199")
        screen.press("/")
        screen.tmux("send-keys", "-l", "t-55-155")
        screen.until(lambda text: "t-55-155" in text and "t-99-199" not in text, "one task is left")
        screen.press("C-q")
        assert "4 tasks running" in screen.until_shell()


OURS = re.compile(
    rb"\x1b\[[0-9;]*[mH]"  # colours and places
    rb"|\x1b\[\?(1049|1000|1002|1003|1015|1006|1016|25|1004|2004|7|2026|2048)[hl]"
    rb"|\x1b\[\?(2026|2048)\$p|\x1b\[[<>][0-9]*u|\x1b\]22;[a-z-]*\x07|\r\n"
)
"""All that Textual sends on its own account."""
HOSTILE = """
[deck]
name = "\\u001b]0;owned\\u0007deck\\u009b2J"
gpus = "sim:1"
[[task]]
name = "bad"
tags = ["\\u001b]52;c;cm0gLXJmIC8=\\u0007", "[red]x[/]", "\\u202egpj.exe", "\\u009d0;owned\\u009c"]
command = ["sh", "-c", "cat log; cat log >&2; exit 3", "\\u001b[2J\\u001b]0;owned\\u0007"]
env = { A = "\\u001b]0;owned\\u0007", B = "[@click=app.quit]x[/]" }
metrics.acc = { regex = "acc=([0-9.]+)" }
"""


def test_nothing_from_outside_commands_the_terminal(tmp_path: Path) -> None:
    with tmux_deck(tmp_path, HOSTILE) as deck:
        lines = [line for name, line in HOSTILE_LINES.items() if "never ended" not in name]
        last = b"RuntimeError: \x1b]52;c;cm0gLXJmIC8=\x07[red]owned[/] \xc2\x9b2J\xff\x1bc\n"
        (deck.folder / "log").write_bytes(b"\n".join(lines) + b"\nacc=0.5\n" + last)
        screen = PtyScreen(deck.folder, deck.env, size=(150, 50))
        try:
            screen.until_sent(b" failed", b"RuntimeError")
            for keys, seen in (
                (b"\r", b"command"), (b"l", b"after"), (b"b", b""), (b"o", b""), (b"w", b""), (b"e", b""), (b"t", b""),
                (b"?", b"The first task"), (b"?", b""), (b"y", b""), (b"R", b""),
            ):  # fmt: skip
                since = len(screen.received)
                screen.type(keys)
                screen.until(lambda sent, seen=seen: len(sent) > 20 and seen in sent, f"{keys!r} shows", since)
            screen.type(b"\x11")
            assert screen.wait() == 0
            screen.until_sent(b"\x1b[?1004l")
        finally:
            screen.close()
    sent = re.sub(rb"\x1b\]52;c;[A-Za-z0-9+/=]*\x07", b"", bytes(screen.received), count=1)  # y, the user's own wish
    rest = OURS.sub(b"", sent).decode("utf-8", "surrogateescape")
    assert [rest[max(0, at - 20) : at + 20] for at, char in enumerate(rest) if dangers(char)] == []
