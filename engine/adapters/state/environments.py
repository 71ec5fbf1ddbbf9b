"""Environments of single tasks: in a deck of commands that were typed, each starts from that of its own shell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from urllib.parse import quote

from ...atomic import write_private

_FOLDER = "environments"


def make_environments(state_dir: str) -> None:
    """From now on tasks of this deck may have environments of their own. Raises OSError."""
    os.makedirs(os.path.join(state_dir, _FOLDER), 0o700, exist_ok=True)


def save_environment(state_dir: str, task: str, environment: Mapping[str, str]) -> None:
    """Keep what *task* starts from, readable by its owner only. Raises OSError."""
    pairs = (os.fsencode(f"{name}={value}") for name, value in environment.items())
    write_private(_path(state_dir, task), b"\0".join(pairs))


def forget_environment(state_dir: str, task: str) -> None:
    """Idempotent."""
    with contextlib.suppress(OSError):
        os.unlink(_path(state_dir, task))


def own_environments(state_dir: str) -> Callable[[str], Mapping[str, str] | None]:
    """What tells, for a task's name, the environment that it alone starts from; None: it has that of the deck.

    In a deck of single commands every task has its own: there FileNotFoundError is raised where it is gone.
    """
    if not os.path.isdir(os.path.join(state_dir, _FOLDER)):
        return lambda _: None
    return lambda task: _load(state_dir, task)


def _load(state_dir: str, task: str) -> Mapping[str, str]:
    with open(_path(state_dir, task), "rb") as file:
        pairs = (os.fsdecode(pair).partition("=") for pair in file.read().split(b"\0") if pair)
        return {name: value for name, _, value in pairs}


def _path(state_dir: str, task: str) -> str:
    return os.path.join(state_dir, _FOLDER, quote(task, safe=""))
