"""Which task file a command is about."""

from __future__ import annotations

import os

from ..command import Command
from ..errors import UsageError
from ..taskfile.find import find_task_file


def task_file(command: Command) -> str:
    """The task file that a command is about, as given or found; with --runs, or where there is no other, that of the
    commands that were run here. Raises UsageError where there is none."""
    if command.flag("runs"):
        return _runs_file(command)
    try:
        return find_task_file(command.file, os.environ, os.getcwd())
    except UsageError as error:
        if "runs" not in command.given:  # the verb is not about them
            raise
        try:
            return _runs_file(command)
        except UsageError:
            raise error from None


def _runs_file(command: Command) -> str:
    from .runs_home import runs_file

    return runs_file(command.file, os.environ)
