"""`gpudeck add`: one more task, in the task file and in the queue of the engine that runs it; where there is no task
file, in the user's own queue."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...engine.adapters import host
from ...engine.adapters.state.folder import load_environment
from ...engine.atomic import write_atomic
from ...engine.attempts.environment import base_environment
from ...engine.client.connection import Connection, Gone
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.core.spec import DeckFile
from ...engine.decks.options import decode, describe, which
from ...engine.decks.states import find_state
from ...engine.errors import DeckError, EngineUnavailableError, UsageError
from ...engine.live.add import Added, Addition, add
from ...engine.live.entry_like import inline
from ...engine.runs.typed import command_of, pairs_of, variables_of
from ...engine.taskfile.options import Box, RunOptions
from ...engine.taskfile.placeholders import escaped
from ...engine.text import field_text
from .screen import print_json

if TYPE_CHECKING:
    from ...engine.decks.loading import Past

_OPTIONS = {
    "gpus": "gpu_count", "gpu_memory": "gpu_memory", "cpus": "cpus", "timeout": "timeout", "priority": "priority",
    "round": "round",
}  # fmt: skip
"""Keys of a task, by the options that set them."""


def run(command: Command) -> int:
    """Print the names of what was added. Raises DeckError, and then the file is as it was."""
    try:
        place = Place.of(command)
    except UsageError:
        if command.file is not None:
            raise
        return _add_to_queue(command)
    addition = _addition(command, os.path.dirname(place.path))
    connection = place.attach()
    if connection is not None:
        with connection:
            _add_live(place, addition, connection, as_json=command.flag("json"))
        return 0
    added = _add(place, addition, place.options, fits=_fitting(place))
    _take(place, added)
    _tell(added, as_json=command.flag("json"))
    if command.flag("start"):
        # Of a deck that has begun nothing else that is new, or edited, comes along.
        purpose = "act" if _past(place).told.run else "look"
        with replace(place, options=replace(place.options, also=added.names)).start(purpose) as connection:
            place.tell_what_bars(connection)
            connection.request("apply", add=list(added.names))
        return 0
    nobody = "no engine runs the deck: `gpudeck` or `gpudeck add --start` starts one"
    if (chosen := _leaving_out(place, added)) != RunOptions():
        nobody = f"left out by {describe(chosen)}, with which the run was started: once that has ended it starts"
        if chosen.only:
            names = " ".join(f"--only {shlex.quote(name)}" for name in (*chosen.only, *added.names))
            nobody += f", and with `gpudeck start {names}` at once"
    place.say(f"written to {place.path}; {place.elsewhere() or nobody}")
    if paused := _paused(place):
        place.say(f"{field_text(paused)}, nothing starts: `gpudeck unpause` starts tasks again")
    return 0


def _add_to_queue(command: Command) -> int:
    """Where there is no task file."""
    from ...engine.runs.wanted import wanted_of
    from .run import queue, refuse_missing

    of_a_file = {"profile": "--profile", "like": "--like", "needs": "--needs", "round": "--round", "keys": "--set"}
    if given := [option for name, option in of_a_file.items() if command.given.get(name)]:
        raise UsageError(f"{given[0]} wants a task file: `gpudeck init` writes one; else a command goes to your queue")
    wanted = wanted_of(command, os.environ, "add")
    refuse_missing(wanted.command, wanted.environment)
    return queue(command, wanted, detach=True)


def _take(place: Place, added: Added) -> None:
    """A run that goes on takes what was added along, whoever brings its engine back; other edits wait."""
    from ...engine.decks.handover import keep_text, kept_file, with_added

    past = _past(place)
    if past.state is not None and past.told.unfinished and (kept := kept_file(past.state.path)):
        keep_text(past.state.path, with_added(kept, added.text))


def _past(place: Place) -> Past:
    from ...engine.decks.loading import past_in

    return past_in(find_state(place.path, place.options))


def _paused(place: Place) -> str:
    from ...engine.serve.offline import offline_look

    return "" if find_state(place.path, place.options) is None else offline_look(place, quiet=True).deck.deck.paused


def _leaving_out(place: Place, added: Added) -> RunOptions:
    """What the unfinished run was started with that leaves what was added out; nothing where it does not."""
    from ...engine.serve.offline import offline_look

    if find_state(place.path, place.options) is None:
        return RunOptions()
    found = offline_look(place, quiet=True).deck
    left_out = any(name in found.deck.by_name and not found.deck.by_name[name].selected for name in added.names)
    return which(found.options) if left_out else RunOptions()


def _addition(command: Command, folder: str) -> Addition:
    given = command.given
    like: str = given.get("like") or ""
    values = {key: str(given[name]) for key, name in _OPTIONS.items() if given.get(name) is not None}
    if given.get("next"):
        values["next"] = "true"
    if needs := given.get("needs"):
        values["needs"] = inline(list(needs))
    cwd: str | None = given.get("cwd")
    if cwd is not None or not like:
        values |= _cwd(os.path.abspath(os.path.expanduser(cwd or os.curdir)), folder)
    values |= {f"env.{name}": value for name, value in variables_of(given.get("env") or ()).items()}
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


def _fitting(place: Place) -> Callable[[DeckFile], None] | None:
    """Checks a file against this box, as the next start does. None: the GPUs are not to be had now."""
    from ...engine.decks.gpus import look_at_gpus
    from ...engine.taskfile.fit import check_fit, refuse_later
    from ...engine.taskfile.load import load_settings

    try:
        gpus = look_at_gpus(load_settings(place.path, place.options), place.environ).fitting()
    except (EngineUnavailableError, UsageError):
        return None

    def fits(file: DeckFile) -> None:
        check_fit(file, gpus)
        refuse_later(file)

    return fits


def _add(
    place: Place, addition: Addition, options: RunOptions, *, fits: Callable[[DeckFile], None] | None = None
) -> Added:
    state = find_state(place.path, options)
    kept = None if state is None else load_environment(state.path)
    environ = base_environment(place.environ) if kept is None else kept
    return add(place.path, addition, options, Box(None, host.cores()), environ=environ, fits=fits)


def _add_live(place: Place, addition: Addition, connection: Connection, *, as_json: bool) -> None:
    """The file is read as its engine reads it, but as a whole."""
    running = decode(connection.request("options")["options"])
    options = replace(running, only=(), exclude=(), with_needs=False, limit=None)
    before = _content(place.path)
    added = _add(place, addition, options)
    after = _content(place.path)
    try:
        place.tell_what_bars(connection)
        connection.request("apply", add=list(added.names))
    except Gone:
        _tell(added, as_json=as_json)
        place.say(f"written to {place.path}; the engine has ended meanwhile: `gpudeck` starts the next one")
        return
    except DeckError as error:
        _take_back(place.path, before, after)
        raise type(error)(f"nothing was added: {error}") from None
    _tell(added, as_json=as_json)
    say(f"engine {connection.hello.pid} has taken it up")


def _tell(added: Added, *, as_json: bool) -> None:
    """On standard output; who takes them up is said beside it."""
    if as_json:
        print_json({"added": list(added.names)})
        return
    for name in added.names:
        print(field_text(name))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None


def _take_back(path: str, before: bytes, after: bytes) -> None:
    """The file as it was, unless somebody else has changed it since."""
    if _content(path) != after:
        say(f"{path} was changed meanwhile and keeps what was added")
        return
    write_atomic(os.path.realpath(path), before, kept=True)
