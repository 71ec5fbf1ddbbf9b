"""`log_cap` in a task file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import load

DECK = """
[defaults]
log_cap = "2GiB"
[[task]]
name = "noisy"
command = "yes"
[[task]]
name = "quiet"
command = "true"
log_cap = "none"
[[task]]
name = "{cap}"
command = "true"
log_cap = "{cap}"
matrix.cap = ["1MiB", "500KB"]
"""


def caps(path: Path, text: str) -> dict[str, int | None]:
    path.write_text(text)
    return {spec.name: spec.extras.log_cap_mib for spec in load(str(path)).tasks}


def test_a_cap_is_for_every_task_or_for_one(tmp_path: Path) -> None:
    assert caps(tmp_path / "tasks.toml", DECK) == {"noisy": 2048, "quiet": None, "1MiB": 1, "500KB": 1}


def test_without_a_word_there_is_none(tmp_path: Path) -> None:
    text = '[[task]]\nname = "a"\ncommand = "true"\n'
    assert caps(tmp_path / "tasks.toml", text) == {"a": None}


@pytest.mark.parametrize("value", ["0MiB", "2", "lots"])
def test_what_is_no_size_is_refused(tmp_path: Path, value: str) -> None:
    text = f'[[task]]\nname = "a"\ncommand = "true"\nlog_cap = "{value}"\n'
    with pytest.raises(TaskFileError, match="log_cap must be"):
        caps(tmp_path / "tasks.toml", text)


def test_another_cap_is_the_same_work(tmp_path: Path) -> None:
    text = '[[task]]\nname = "a"\ncommand = "true"\nlog_cap = "1GiB"\n'
    first, second = tmp_path / "tasks.toml", tmp_path / "other.toml"
    first.write_text(text)
    second.write_text(text.replace("1GiB", "2GiB"))
    assert load(str(first)).tasks[0].fingerprint == load(str(second)).tasks[0].fingerprint
