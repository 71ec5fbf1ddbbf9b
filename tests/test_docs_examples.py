"""What readers may copy from the documentation is accepted by the program: task files, settings, command lines."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside.root import DECK, VERBS, config, main, parse

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETTINGS = "# ~/.config/gpudeck/config.toml"
TASK = '[[task]]\nname = "example"\ncommand = "true"\n'


def blocks(*kinds: str) -> Iterator[tuple[str, str]]:
    """Each block of these kinds, with the page and line where it stands."""
    for page in PAGES:
        text = page.read_text()
        for found in FENCED.finditer(text):
            if found[1] in kinds:
                yield f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}", found[2]


def whole(block: str) -> str:
    """A task file: tables alone are given a task, keys alone are those of a task."""
    if "[[task]]" in block:
        return block
    first = next(line for line in block.splitlines() if line and not line.startswith("#"))
    return f"{block}\n{TASK}" if first.startswith("[") else TASK + block


TOML = dict(blocks("toml"))
DECKS = {where: whole(block) for where, block in TOML.items() if not block.startswith(SETTINGS)}


@pytest.mark.parametrize("where", DECKS)
def test_every_example_of_a_task_file_is_sound(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(DECKS[where])
    assert main(["check", str(path), "--gpus", "sim:8"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("where", [where for where, block in TOML.items() if block.startswith(SETTINGS)])
def test_every_example_of_settings_is_taken(where: str) -> None:
    assert config.parse(tomllib.loads(TOML[where]), where).problems == ()


def shell_lines(kind: str, block: str) -> Iterator[str]:
    for line in block.splitlines():
        if kind == "sh":
            yield line
        elif line.startswith("$ "):
            yield line[2:]
        elif kind == "yaml" and "- run: " in line:
            yield line.partition("- run: ")[2]


def indented_lines(page: Path) -> Iterator[str]:
    """Commands in indented text, where words two spaces behind one explain it."""
    for line in FENCED.sub("", page.read_text()).splitlines():
        if line.startswith("    gpudeck "):
            yield from (part for part in re.split(r"\s{2,}", line) if part.startswith("gpudeck "))


def gpudeck_words(line: str) -> Iterator[list[str]]:
    """The arguments of each gpudeck that a shell would run for the line, and for what it runs elsewhere."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    command: list[str] = []
    for word in [*words, ";"]:
        if re.fullmatch(r"[|&;<>()]+", word):
            if "gpudeck" in command:
                yield command[command.index("gpudeck") + 1 :]
            command = []
        else:
            if "gpudeck" in word.split() and " " in word:
                yield from gpudeck_words(word)
            command.append(word)


def lines() -> Iterator[tuple[str, str]]:
    for kind in ("console", "sh", "yaml"):
        for where, block in blocks(kind):
            yield from ((where, line) for line in shell_lines(kind, block))
    for page in PAGES:
        yield from ((str(page.relative_to(ROOT)), line) for line in indented_lines(page))


LINES = [(where, line) for where, line in lines() if not re.search(r"\bCOMMAND\b|\.\.\.|\bFILE\b", line)]


def test_there_are_command_lines_to_look_at() -> None:
    assert sum(1 for _, line in LINES for _ in gpudeck_words(line)) > 60


@pytest.mark.parametrize(("where", "line"), LINES)
def test_every_command_line_is_understood(where: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in gpudeck_words(line):
        try:
            parse(words)
        except SystemExit as end:  # 0: --version, which the parser answers itself
            if end.code:
                raise AssertionError(f"{where}: {line}: {capsys.readouterr().err}") from None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_named_in_the_text_exists(page: Path) -> None:
    named = re.findall(r"`gpudeck ([a-z]+)(?![\w./=-])", FENCED.sub("", page.read_text()))
    assert [name for name in named if name not in VERBS or name == DECK] == []
