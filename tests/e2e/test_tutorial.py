"""docs/tutorial.md is done from its first line to its last: its commands print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.fakes.live_deck import LiveDeck

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENDED_WITH_FAILURES = 1


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def plain(line: str) -> str:
    """Without what differs from run to run: folders, numbers, how far a retry has come, widths."""
    for pattern, instead in (
        (r"/\S+/", "/"),
        (r"\d+", "0"),
        (r"is (queued|starting|running)\b", "is"),
        (r"[\s-]+", " "),
    ):
        line = re.sub(pattern, instead, line)
    return line.strip()


def agree(shown: list[str], printed: list[str]) -> bool:
    """A line of `…` stands for any number of lines. Results are the same on each box."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(agree(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    same = printed and (shown[0] == printed[0] if "|" in shown[0] else plain(shown[0]) == plain(printed[0]))
    return bool(same) and agree(shown[1:], printed[1:])


def edited(text: str, change: str) -> str:
    """The file with what a diff shows in place of what was there."""
    lines = change.splitlines()
    before, after = ("\n".join(line[1:] for line in lines if line[0] != other) for other in "+-")
    assert before in text
    return text.replace(before, after, 1)


def gpudeck(deck: LiveDeck, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "gpudeck", *words), cwd=deck.folder, env=deck.env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def do(deck: LiveDeck, command: str, shown: list[str]) -> None:
    words = command.removeprefix("gpudeck").split()
    if not words:  # the screen is opened, and left for the night
        deck.start()
        assert gpudeck(deck, "wait").returncode == ENDED_WITH_FAILURES
        return
    done = gpudeck(deck, *words)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    assert agree(shown, [line for line in done.stdout.splitlines() if line]), f"{command}:\n{done.stdout}"


@pytest.mark.soak
def test_every_command_of_the_tutorial_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    folder = tmp_path / "first-deck"
    folder.mkdir()
    deck = LiveDeck(folder)
    deck.env = {name: value for name, value in deck.env.items() if not name.startswith("GPUDECK_")}
    try:
        for kind, block in BLOCK.findall(PAGE):
            name = block.partition("\n")[0].removeprefix("# ")
            if kind in ("python", "toml"):
                assert fnmatchcase(name, "*.*"), "its first line names the file"
                (folder / name).write_text(block)
            elif kind == "diff":
                (folder / "tasks.toml").write_text(edited(deck.text("tasks.toml"), block))
            else:
                for command, shown in commands(block):
                    do(deck, command, shown)
    finally:
        deck.close()
