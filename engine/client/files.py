"""The task file that a command means: the one that it names, that of the folder, or the one that gpudeck writes itself:
for single commands, one for each user and host, and beside a task file for the trials of `gpudeck fit`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..adapters import host
from ..command import Command
from ..errors import DeckError, UsageError
from ..taskfile.find import NAME, STATE_DIR, find_task_file

QUEUE = "queue"
"""The deck of what `gpudeck run` runs, and `gpudeck add` where there is no task file."""
FIT = "fit"
_ABOUT_A_FILE = frozenset(
    ("apply", "compare", "env", "notify", "pause", "plan", "report", "start", "stop", "table", "takeover", "unpause")
)
"""What is typed for a deck that one believes to be here does nothing to all that is in the queue."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where a deck lies whose task file gpudeck writes."""

    path: str
    """The task file, absolute."""
    state: str
    """The deck's state folder; private, on a local disk."""
    logs: str
    deck: str
    """Its name."""
    kind: str


def queue_home(*, as_root: bool) -> Home:
    """Find or make the place of the user's queue. Raises DeckError."""
    from ..adapters.state.folder import open_state_dir, state_home  # who only looks for a file needs none

    base, path = state_home(), queue_file()
    try:
        os.makedirs(base, 0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{base} cannot be made ({error.strerror}): set XDG_STATE_HOME to a folder of yours") from None
    folder = os.path.dirname(path)
    try:
        state = open_state_dir(os.path.join(base, "-"), os.path.basename(folder), _stem(QUEUE), as_root=as_root)
    except DeckError as error:
        what, advice, _ = str(error).partition(": set state_dir")
        raise (type(error)(f"{what}: set XDG_STATE_HOME to a folder of yours") if advice else error) from None
    return Home(path, state.path, os.path.join(folder, "logs"), QUEUE, QUEUE)


def queue_file() -> str:
    """The task file of the user's queue on this host; in a Slurm job, whose GPUs others have not, one of its own. It
    need not be there."""
    from ..adapters.state.folder import state_home

    return os.path.join(state_home(), "gpudeck", f"{_stem(QUEUE)}.toml")


def fit_home(file: str, *, as_root: bool) -> Home:
    """Find or make the place of trials beside a task file, absolute. Raises DeckError."""
    from ..adapters.state.folder import open_state_dir

    folder = os.path.dirname(file)
    state = open_state_dir(os.path.join(folder, "-"), STATE_DIR, _stem(FIT), as_root=as_root)
    path = os.path.join(folder, STATE_DIR, f"{_stem(FIT)}.toml")
    return Home(path, state.path, os.path.join(folder, "logs", FIT), f"{_text(os.path.basename(folder))}-{FIT}", FIT)


def _stem(kind: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", host.hostname()) or "host"
    job = os.environ.get("SLURM_JOB_ID", "") if kind == QUEUE else ""
    return f"{kind}@{name}" + (f".job{job}" if job.isdecimal() else "")


def _text(name: str) -> str:
    """Names of folders need not be text."""
    return os.fsencode(name).decode("utf-8", "replace")


def task_file(command: Command) -> str:
    """The task file that a command is about, as given or found; with --queue, or for most where there is no other, that
    of the user's queue. Raises UsageError where there is none."""
    if command.flag("queue"):
        if command.file is not None:
            raise UsageError("--queue means your single commands, which have no task file: give one of the two")
        if not os.path.isfile(path := queue_file()):
            raise UsageError("your queue on this host is empty: `gpudeck run -- COMMAND` runs a command")
        return path
    try:
        return find_task_file(command.file, os.environ, os.getcwd())
    except UsageError as error:
        if command.file is not None or "queue" not in command.given:
            raise
        is_there = os.path.isfile(queue_file())
        if command.verb in _ABOUT_A_FILE or command.flag("headless"):
            raise (UsageError(f"{error}; --queue means your single commands") if is_there else error) from None
        if not is_there:
            runs = "`gpudeck run -- CMD` runs a command, `gpudeck init` writes a file"
            raise UsageError(f"no {NAME} here or above, and your queue is empty: {runs}") from None
        return queue_file()
