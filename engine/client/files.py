"""The task file that a command means: the one that it names, that of the folder, or the one that gpudeck writes for the
runs of a folder, with its deck's state, one of each per host."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..adapters import host
from ..command import Command
from ..errors import DeckError, UsageError
from ..taskfile.find import find_task_file

STATE_DIR = ".gpudeck"
RUNS = "run"
FIT = "fit"
"""Kinds: what `gpudeck run` runs, and the trials of `gpudeck fit`."""
_ELSEWHERE = "run it in a folder of yours, or with -f and a task file in one"


@dataclass(frozen=True, slots=True)
class Home:
    """Of one folder on one host: a file system that hosts share has several."""

    folder: str
    """The user's: that of the task file, where there is one here or above, else the current one. Absolute."""
    state: str
    """The deck's state folder; private, on a local disk."""
    kind: str = RUNS
    """Commands that know nothing of each other keep their runs apart."""

    @property
    def path(self) -> str:
        """The task file of the runs."""
        return file_in(self.folder, self.kind)

    @property
    def log_dir(self) -> str:
        """Seen from `folder`."""
        return os.path.join("logs", self.kind)

    @property
    def logs(self) -> str:
        return os.path.join(self.folder, self.log_dir)


def home_of(file: str | None, environ: Mapping[str, str], *, as_root: bool, kind: str = RUNS) -> Home:
    """Find or make the place for runs. *file*: a task file beside which they are kept. Raises DeckError."""
    from ..adapters.state.folder import open_state_dir  # who only looks for a file needs none

    folder = _folder(file, environ)
    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: no such folder")
    try:
        state = open_state_dir(os.path.join(folder, "-"), STATE_DIR, _stem(kind), as_root=as_root)
    except DeckError as error:
        what, advice, _ = str(error).partition(": set state_dir")
        raise (type(error)(f"{what}: {_ELSEWHERE}") if advice else error) from None
    return Home(folder, state.path, kind)


def runs_file(file: str | None, environ: Mapping[str, str]) -> str:
    """The task file of the runs that were made here, for other commands. Raises UsageError where there were none."""
    folder = _folder(file, environ)
    path = file_in(folder)
    if not os.path.isfile(path):
        raise UsageError(f"nothing was run in {folder} on this host: `gpudeck run -- COMMAND` does it")
    return path


def file_in(folder: str, kind: str = RUNS) -> str:
    """The task file of the runs of a folder."""
    return os.path.join(folder, STATE_DIR, f"{_stem(kind)}.toml")


def _folder(file: str | None, environ: Mapping[str, str]) -> str:
    try:
        found = find_task_file(file, environ, os.getcwd())
    except UsageError:
        return os.getcwd()
    return os.path.dirname(os.path.abspath(found))


def _stem(kind: str) -> str:
    return f"{kind}@{re.sub(r'[^A-Za-z0-9._+-]', '_', host.hostname()) or 'host'}"


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
    from .files import runs_file

    return runs_file(command.file, os.environ)
