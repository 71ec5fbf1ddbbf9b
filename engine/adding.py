"""Adds tasks to a deck that has a task file: to the file, and to the queue of the engine that runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .adapters import host
from .adapters.state.folder import load_environment
from .atomic import write_atomic
from .attempts.environment import base_environment
from .client.connection import Connection, Gone
from .client.place import Place
from .command import Command
from .core.spec import DeckFile
from .decks.options import decode
from .decks.states import find_state
from .errors import DeckError, EngineUnavailableError, UsageError
from .live.add import Added, Addition, add
from .live.entry_like import inline
from .taking import take_places
from .taskfile.expand import NOW_PRIORITY
from .taskfile.options import Box, RunOptions
from .taskfile.placeholders import as_written, escaped
from .typed import command_of, pairs_of, variables_of

if TYPE_CHECKING:
    from .decks.loading import Past

_OPTIONS = {
    "gpus": "gpu_count", "gpu_memory": "gpu_memory", "cpus": "cpus", "timeout": "timeout", "priority": "priority",
    "round": "round",
}  # fmt: skip
"""Keys of a task, by the options that set them."""


def addition_of(command: Command, folder: str) -> Addition:
    """What `add` was given, for a task file in *folder*. Raises UsageError."""
    given = command.given
    like: str = given.get("like") or ""
    values = {key: str(given[name]) for key, name in _OPTIONS.items() if given.get(name) is not None}
    if given.get("next") or given.get("now"):
        values["next"] = "true"
    if given.get("now"):
        values.setdefault("priority", str(NOW_PRIORITY))
    if needs := given.get("needs"):
        values["needs"] = inline(list(needs))
    cwd: str | None = given.get("cwd")
    if cwd is not None or not like:
        values |= _cwd(os.path.abspath(os.path.expanduser(cwd or os.curdir)), folder)
    values |= {f"env.{name}": value for name, value in variables_of(given.get("env") or ()).items()}
    params: Mapping[str, object] = given.get("params") or {}
    values |= {f"matrix.{key}": inline([as_written(value)]) for key, value in params.items()}
    values |= pairs_of(given.get("keys") or (), "--set")
    name: str = given.get("task_name") or ""
    if like and command.words:
        raise UsageError("add: give either a command or --like TASK")
    return Addition((), like, values, name) if like else Addition(command_of(command.words, "add"), "", values, name)


def _cwd(path: str, folder: str) -> Mapping[str, str]:
    """Nothing has to be said of the task file's own folder."""
    relative = os.path.relpath(path, folder)
    if relative == os.curdir:
        return {}
    return {"cwd": inline(escaped(path if relative.split(os.sep)[0] == os.pardir else relative))}


def add_to_file(place: Place, additions: Sequence[Addition]) -> Added:
    """Where no engine runs the deck; its next one takes them up. Raises DeckError, and then the file is as it was."""
    added = _add(place, additions, place.options, fits=_fitting(place))
    _take_along(place, added)
    return added


def would_add(place: Place, additions: Sequence[Addition]) -> Added:
    """What `add_to_file` would add; nothing is written. Raises DeckError."""
    return _add(place, additions, place.options, fits=_fitting(place), dry_run=True)


def start_added(place: Place, added: Added, now: Sequence[str] = ()) -> None:
    """Start an engine that runs what `add_to_file` has added. Of a deck that has begun nothing else that is new, or
    edited, comes along. *now*: those that are to have the place of what runs."""
    purpose = "act" if past_of(place).told.run else "look"
    with replace(place, options=replace(place.options, also=added.names)).start(purpose) as connection:
        place.tell_what_bars(connection)
        connection.request("apply", add=list(added.names))
        take_places(connection, now, place.tell)


def add_live(place: Place, additions: Sequence[Addition], connection: Connection) -> tuple[Added, bool]:
    """Add to the file, which is read as its engine reads it, but as a whole, and tell the engine. Returns False where
    that ended meanwhile: they stand in the file. Raises DeckError, and then the file is as it was."""
    running = decode(connection.request("options")["options"])
    options = replace(running, only=(), exclude=(), with_needs=False, limit=None)
    before = _content(place.path)
    added = _add(place, additions, options)
    after = _content(place.path)
    try:
        place.tell_what_bars(connection)
        connection.request("apply", add=list(added.names))
    except Gone:
        return added, False
    except DeckError as error:
        _take_back(place, before, after)
        raise type(error)(f"nothing was added: {error}") from None
    return added, True


def past_of(place: Place) -> Past:
    """What the deck's journal tells."""
    from .decks.loading import past_in

    return past_in(find_state(place.path, place.options))


def _take_along(place: Place, added: Added) -> None:
    """A run that goes on takes what was added along, whoever brings its engine back; other edits wait."""
    from .decks.handover import keep_text, kept_file, with_added

    past = past_of(place)
    if past.state is not None and past.told.unfinished and (kept := kept_file(past.state.path)):
        keep_text(past.state.path, with_added(kept, added.text))


def _fitting(place: Place) -> Callable[[DeckFile], None] | None:
    """Checks a file against this box, as the next start does. None: the GPUs are not to be had now."""
    from .decks.gpus import look_at_gpus
    from .taskfile.fit import check_fit, refuse_later
    from .taskfile.load import load_settings

    try:
        gpus = look_at_gpus(load_settings(place.path, place.options), place.environ).fitting()
    except (EngineUnavailableError, UsageError):
        return None

    def fits(file: DeckFile) -> None:
        check_fit(file, gpus)
        refuse_later(file)

    return fits


def _add(
    place: Place,
    additions: Sequence[Addition],
    options: RunOptions,
    *,
    fits: Callable[[DeckFile], None] | None = None,
    dry_run: bool = False,
) -> Added:
    state = find_state(place.path, options)
    kept = None if state is None else load_environment(state.path)
    environ = base_environment(place.environ) if kept is None else kept
    return add(place.path, additions, options, Box(None, host.cores()), environ=environ, fits=fits, dry_run=dry_run)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None


def _take_back(place: Place, before: bytes, after: bytes) -> None:
    """The file as it was, unless somebody else has changed it since."""
    if _content(place.path) != after:
        place.say(f"{place.path} was changed meanwhile and keeps what was added")
        return
    write_atomic(os.path.realpath(place.path), before, kept=True)
