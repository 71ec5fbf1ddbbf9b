"""Programs that get the terminal for a while: $PAGER, $EDITOR."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import App, SuspendNotSupported


def pager_of(env: Mapping[str, str]) -> list[str]:
    """The user's pager with its options; `less -R` where none is set, or what is set cannot be understood."""
    return _words(env.get("PAGER", "")) or ["less", "-R"]


def editor_of(env: Mapping[str, str]) -> list[str]:
    """$VISUAL, $EDITOR or `vi`, with their options."""
    return _words(env.get("VISUAL", "")) or _words(env.get("EDITOR", "")) or ["vi"]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def with_content(paths: Sequence[str]) -> list[str]:
    """Of several files those that are not empty; one of them at least."""
    if len(paths) < 2:
        return list(paths)
    return [path for path in paths if _size(path)] or list(paths[:1])


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def run_outside(app: App[Any], command: Sequence[str]) -> str:
    """Run *command* in the foreground until it ends. Returns "", or why it could not be run."""
    try:
        with app.suspend():
            return _run(command)
    except SuspendNotSupported:
        return f"{command[0]}: this terminal cannot be lent to another program"


def _run(command: Sequence[str]) -> str:
    """ctrl+c is the program's: a handler of ours keeps it from ending us, and is not inherited."""

    def ignore(_signal: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, ignore)
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    finally:
        signal.signal(signal.SIGINT, before)
    return ""
