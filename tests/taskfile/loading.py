"""A task file as it is loaded in the present folder, and what is said where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile, TaskSpec
from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import RunOptions, load


def deck(text: str, options: RunOptions | None = None, environ: Mapping[str, str] | None = None) -> DeckFile:
    Path("tasks.toml").write_text(text)
    return load("tasks.toml", options, environ={"PATH": "/bin", **(environ or {})})


def tasks(text: str, options: RunOptions | None = None) -> dict[str, TaskSpec]:
    return {task.name: task for task in deck(text, options).tasks}


def problems(text: str, options: RunOptions | None = None) -> list[str]:
    with pytest.raises(TaskFileError) as caught:
        deck(text, options)
    return list(caught.value.problems)
