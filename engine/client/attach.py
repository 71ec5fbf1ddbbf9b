"""Finds the engine of a deck and connects to it, or starts one. Blocking; for commands."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..adapters.processes.proc import stat
from ..adapters.state.lock import Holder, held_by, this_machine
from ..adapters.state.sockets import addresses, connect
from ..decks.options import AS_TAKEN, Purpose
from ..decks.options import encode as encode_options
from ..decks.states import find_state
from ..errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..taskfile.options import RunOptions
from ..text import plural
from .connection import HELLO_S, Connection, Gone, silent

START_S = 60.0
"""A deck of 100,000 tasks on a slow disk is open within this time."""
_LOOK_S = 0.02


def attach(path: str, options: RunOptions) -> Connection | None:
    """A connection to the engine that runs the deck of *path*; None: none does.

    Raises EngineUnavailableError: it runs on another machine, or does not answer. Nothing is ever started here.
    """
    state = find_state(path, options)
    if state is None:
        return None
    deadline = time.monotonic() + START_S
    elsewhere = None
    while (holder := held_by(state.path)) is not None:
        here = this_machine()
        if holder.pid and not (holder.machine.same_box(here) and holder.machine.pid_ns == here.pid_ns):
            if holder == elsewhere:
                name = holder.machine.host
                raise EngineUnavailableError(
                    f"this deck runs on {name} (engine {holder.pid}): use it there: ssh -t {name} gpudeck"
                )
            elsewhere = holder  # an engine that has just taken the lock here may not have put its name there yet
            time.sleep(_LOOK_S)
            continue
        if holder.address:
            try:
                return Connection(connect(holder.address, timeout_s=HELLO_S), holder)
            except TimeoutError as error:
                raise EngineUnavailableError(silent(holder)) from error
            except PermissionError as error:
                raise EngineUnavailableError(_closed(holder, error)) from error
            except (OSError, Gone):
                pass  # not bound yet, or just about to end
        if time.monotonic() > deadline or _frozen(holder):
            raise EngineUnavailableError(silent(holder))
        time.sleep(_LOOK_S)
    return None


def engines_here() -> Iterator[Connection]:
    """Connections to all engines of this user on this box, but those that do not answer."""
    for address in addresses():
        try:
            found = Connection(connect(address, timeout_s=HELLO_S))
        except (OSError, EngineUnavailableError):
            continue
        yield found


def has_engine(path: str, options: RunOptions) -> bool:
    """Whether an engine has the deck of *path*, on this machine or another. Nothing is asked of it."""
    state = find_state(path, options)
    return state is not None and held_by(state.path) is not None


def attach_or_start(
    path: str,
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    as_root: bool = False,
    takeover: bool = False,
    purpose: Purpose = "look",
    warn: Any = None,
) -> Connection:
    """A connection to the deck's engine, which is started in a session of its own if none runs.

    *warn* is called with a line where the engine would not survive a logout. *takeover*: what had the deck before is
    gone. *purpose*: of an engine that is started here. Raises DeckError with the engine's own words when it cannot run
    the deck.
    """
    if not takeover and (connection := attach(path, options)):
        return connection
    if purpose not in AS_TAKEN:
        _refuse_broken(path, options)
    flags = ["--purpose", purpose, *["--as-root"] * as_root, *["--takeover"] * takeover]
    return _start(path, options, environ, flags, takeover=takeover, warn=warn)


def _refuse_broken(path: str, options: RunOptions) -> None:
    """Raises TaskFileError."""
    from ..taskfile.load import load_settings

    try:
        load_settings(path, options)
    except TaskFileError as error:
        raise with_running(error, path, options) from None


def with_running(error: TaskFileError, path: str, options: RunOptions) -> TaskFileError:
    """What keeps a deck from being opened, and how to end what runs of it all the same."""
    runs_on = running_alone(path, options)
    return TaskFileError([*error.problems, f"{path}: {runs_on}"]) if runs_on else error


def running_alone(path: str, options: RunOptions) -> str:
    """What to say of tasks that run without an engine where none can be started; "" where none do."""
    state = find_state(path, options)
    running = 0 if state is None or held_by(state.path) is not None else state.running()
    runs, them = ("runs", "it") if running == 1 else ("run", "them")
    return f"{plural(running, 'task')} of the deck {runs} on: `gpudeck stop --tasks` ends {them}" if running else ""


def _start(
    path: str, options: RunOptions, environ: Mapping[str, str], flags: list[str], *, takeover: bool, warn: Any
) -> Connection:
    import tempfile

    from .detach import start_detached

    argv = [sys.executable, "-P", "-m", "gpudeck", "engine", path, "--options", encode_options(options), *flags]
    with tempfile.NamedTemporaryFile(prefix="gpudeck-start-") as said:
        pid = start_detached(argv, cwd=os.path.dirname(path), env=environ, log_path=said.name, warn=warn)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            process = stat(pid)
            if process is None or not process.live:
                raise _last_words(said.read(), path)
            if connection := _attach_new(path, options, takeover=takeover):
                if connection.hello.pid != pid:  # it waits for the lock, and would go on with what is stopped meanwhile
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return connection
            time.sleep(_LOOK_S)
    raise EngineUnavailableError(f"the engine {pid} takes too long to start: `gpudeck status` tells whether it has")


def _attach_new(path: str, options: RunOptions, *, takeover: bool) -> Connection | None:
    """An engine that takes a deck over has it a moment before it has written so."""
    try:
        return attach(path, options)
    except EngineUnavailableError:
        if takeover:
            return None
        raise


def _last_words(said: bytes, path: str) -> DeckError:
    """What an engine that could not start has said."""
    lines = said.decode("utf-8", "replace").splitlines()
    code = lines.pop().removeprefix("exit ") if lines and lines[-1].startswith("exit ") else ""
    if code == "2" and lines and all(line.startswith(path) for line in lines):
        return TaskFileError(lines)
    if not lines:  # it says why it ends unless something kills it
        return Gone("the engine was killed as it started")
    text = "\n".join(lines[-20:])
    return UsageError(text) if code == "2" else EngineUnavailableError(text)


def _frozen(holder: Holder) -> bool:
    process = stat(holder.pid) if holder.pid else None
    return process is not None and process.state in "tT"


def _closed(holder: Holder, error: PermissionError) -> str:
    folder = os.path.dirname(holder.address)
    if error.errno == errno.EACCES:
        return f"engine {holder.pid} is another user's, as {folder} is: use it as that user"
    return f"engine {holder.pid} listens in {folder}, which is open to others: chmod 700 {folder}"
