"""Placeholders with a format, as Python has them: values stand as they are written, so that one is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import load

ENTRY = """
[[task]]
name = "t-{{r}}"
matrix.r = [0.5]
command = '{command}'
"""


def command_of(folder: Path, command: str) -> object:
    (folder / "tasks.toml").write_text(ENTRY.format(command=command))
    return load(str(folder / "tasks.toml")).tasks[0].work.command


@pytest.mark.parametrize("written", ["{r:.2f}", "{r!r}", "{task:>10}", "{attempt:03}", "{deck!s:>4}"])
def test_a_known_name_with_a_format_is_refused_with_what_to_write(tmp_path: Path, written: str) -> None:
    with pytest.raises(TaskFileError) as refused:
        command_of(tmp_path, f"echo {written}")
    assert f"has {written}, and values take no format: write {{" in str(refused.value)
    assert f"write {{{written}}} for the text itself" in str(refused.value)


@pytest.mark.parametrize(
    ("written", "stands"),
    [
        ("{{r:.2f}}", "{r:.2f}"),
        ("{unknown:.2f}", "{unknown:.2f}"),
        ("${r:-none}", "${r:-none}"),
        ("{{unknown:.2f}}", "{{unknown:.2f}}"),
        ("{ r:.2f }", "{ r:.2f }"),
    ],
)
def test_what_is_meant_as_text_stays(tmp_path: Path, written: str, stands: str) -> None:
    assert command_of(tmp_path, f"echo {written}") == f"echo {stands}"


def test_a_name_with_a_format_is_refused_in_a_list_too(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(ENTRY.format(command="true").replace("'true'", '["echo", "{r:g}"]'))
    with pytest.raises(TaskFileError, match="values take no format"):
        load(str(tmp_path / "tasks.toml"))
