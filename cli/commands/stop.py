"""`gpudeck stop`: ends the engine, and with --tasks the tasks as well."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import msgspec

from ... import __version__
from ...engine.adapters.processes.proc import stat
from ...engine.adapters.state.lock import held_by
from ...engine.client.attach import attach
from ...engine.client.connection import Connection, Gone
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.decks.options import decode
from ...engine.decks.states import find_state
from ...engine.errors import DeckError, EngineEndingError, EngineUnavailableError, UsageError
from ...engine.protocol.states import ACTIVE
from ...engine.protocol.wire import Bye, DeckHead
from ...engine.text import plural
from .screen import tell

_RELEASE_S = 10.0
"""An engine that has said goodbye lets go of the deck within this time."""
_EXIT_S = 2.0
"""A headless run may have a slow reader for its summary; that is not waited for."""
_LOOK_S = 0.02


def run(command: Command) -> int:
    """Returns when the engine is gone; 0 also where none runs. One is started where only its tasks are left to stop."""
    tasks, now = command.flag("tasks"), command.flag("now")
    if now and not tasks:
        raise UsageError("--now goes with --tasks: without it no task is stopped")
    place = Place.of(command)
    connection = place.attach()
    if connection is None:
        place.refuse_elsewhere()
        if tasks and find_state(place.path, place.options) is not None:
            from ...engine.serve.offline import offline_look

            if offline_look(place, quiet=True).running:
                connection = place.start("stop", quiet=True)
    if connection is None:
        tell(command, "no engine runs this deck", engine=None, running=0, stopped=0)
        return 0
    with connection:
        pid = connection.hello.pid
        running = _running(connection)
        if tasks and running and not command.flag("json"):
            print(f"stopping {plural(running, 'task')} …", flush=True)
        stop_engine(connection, tasks=tasks, now=now)
    wait_for_lock(place, pid)
    verb, them = ("runs", "it") if running == 1 else ("run", "them")
    if not running:
        rest = "no task runs"
    elif tasks:
        rest = f"no task runs; the next start takes up what was stopped, `gpudeck cancel SEL` drops {them}"
    else:
        rest = f"{plural(running, 'task')} {verb} on; the next `gpudeck` adopts {them}"
    text = place.hints.completed(f"engine {pid} has ended: {rest}")
    tell(command, text, engine=pid, running=0 if tasks else running, stopped=running if tasks else 0)
    return 0


def _running(connection: Connection) -> int:
    """Those that have left the task file included."""
    rows = connection.wait_for_picture().rows.values()
    return sum(row.state in ACTIVE or row.state == "unknown" for row in rows if not row.pending)


def stop_engine(connection: Connection, *, tasks: bool = False, now: bool = False) -> None:
    """Ask for it and wait for the goodbye, which may be quicker than the answer."""
    try:
        connection.request("stop", tasks=tasks, now=now)
        for message in connection.messages():
            if isinstance(message, Bye):
                return
    except Gone:
        return
    except KeyboardInterrupt:
        pid = connection.hello.pid
        raise EngineUnavailableError(f"engine {pid} goes on stopping: `gpudeck status` tells") from None


def end_again(place: Place, connection: Connection) -> None:
    """An engine that was started for what came to nothing (answered with n, no such task) leaves as it came: nothing
    starts."""
    with contextlib.suppress(DeckError):
        stop_engine(connection)
        place.say(f"engine {connection.hello.pid} has ended again: nothing was done")


def make_way(place: Place, *, always: bool = False) -> None:
    """An engine whose run has ended, and that nobody else looks at, ends for one that begins the next run: *always*, or
    where the options or the task file are others by now."""
    connection = attach(place.path, place.options)
    if connection is None:
        return
    hello = connection.hello
    with connection, contextlib.suppress(Gone, EngineEndingError):  # it ends by itself just now
        if hello.mode != "detached" or hello.version != __version__:
            return
        status = connection.request("status")
        head = msgspec.convert(status["head"], DeckHead)
        if not head.ended or head.counts.unknown or status["clients"] > 1:
            return
        if not always and not _is_other(connection, place):
            return
        stop_engine(connection)
    wait_for_lock(place, hello.pid)


def _is_other(connection: Connection, place: Place) -> bool:
    options = decode(connection.request("options")["options"])
    if options != replace(place.options, also=options.also):
        return True
    try:
        return bool(connection.request("apply", dry_run=True)["changes"])
    except UsageError:  # it cannot be used, which the start tells
        return True


def wait_for_lock(place: Place, pid: int) -> None:
    """A start that follows must find the deck free; and the process should be gone."""
    state = find_state(place.path, place.options)
    deadline = time.monotonic() + _RELEASE_S
    while state is not None and (holder := held_by(state.path)) is not None and holder.pid == pid:
        if time.monotonic() > deadline:
            raise EngineUnavailableError(f"engine {pid} has said that it ends, and still holds the deck")
        time.sleep(_LOOK_S)
    deadline = time.monotonic() + _EXIT_S
    while (process := stat(pid)) is not None and process.live and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
