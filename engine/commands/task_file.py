"""Which task file a command is about."""

from __future__ import annotations

import os

from ..command import Command
from ..taskfile.find import find_task_file


def task_file(command: Command) -> str:
    """The task file that a command is about, as given or found; with --runs that of the commands that were run here.
    Raises UsageError where there is none."""
    if command.flag("runs"):
        from ..runs.home import runs_file

        return runs_file(command.file, os.environ)
    return find_task_file(command.file, os.environ, os.getcwd())
