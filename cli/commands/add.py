"""`gpudeck add`: one more task, in the task file and in the queue of the engine that runs it; where there is no task
file, in the user's own queue."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

from ...engine.adding import add_live, add_to_file, addition_of, start_added, would_add
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.decks.options import describe, which
from ...engine.decks.states import find_state
from ...engine.errors import UsageError
from ...engine.live.add import Added
from ...engine.live.entry_like import table_lines
from ...engine.taking import take_places
from ...engine.taskfile.options import RunOptions
from ...engine.text import field_text, plural
from .screen import print_json


def run(command: Command) -> int:
    """Print the names of what was added. Raises DeckError, and then the file is as it was."""
    if command.flag("queue"):
        if command.file is not None:
            raise UsageError("--queue means your single commands, which have no task file: give one of the two")
        return _add_to_queue(command)
    # Without a task file the queue is meant, too, but by this command's own rules.
    command = replace(command, given={name: value for name, value in command.given.items() if name != "queue"})
    try:
        place = Place.of(command)
    except UsageError:
        if command.file is not None:
            raise
        return _add_to_queue(command)
    additions = [addition_of(command, os.path.dirname(place.path))]
    if command.flag("dry_run"):
        _show(would_add(place, additions), place.path, as_json=command.flag("json"))
        return 0
    connection = place.attach()
    if connection is not None:
        with connection:
            added, taken = add_live(place, additions, connection)
            _tell(added, as_json=command.flag("json"))
            if taken and command.flag("now"):
                take_places(connection, added.names, say)
        if taken:
            say(f"engine {connection.hello.pid} has taken it up")
        else:
            place.say(f"written to {place.path}; the engine has ended meanwhile: `gpudeck apply` takes it up")
        return 0
    added = add_to_file(place, additions)
    _tell(added, as_json=command.flag("json"))
    if command.flag("start"):
        left = _left_waiting(place, added)
        start_added(place, added, added.names if command.flag("now") else ())
        if left:
            place.say(f"the file has {plural(left, 'other new task')}: `gpudeck start` takes up all of it")
        return 0
    nobody = "no engine runs the deck: `gpudeck` or `gpudeck add --start` starts one"
    chosen, paused = _what_bars(place, added)
    if chosen != RunOptions():
        nobody = f"left out by {describe(chosen)}, with which the run was started: once that has ended it starts"
        if chosen.only:
            names = " ".join(f"--only {shlex.quote(name)}" for name in (*chosen.only, *added.names))
            nobody += f", and with `gpudeck start {names}` at once"
    place.say(f"written to {place.path}; {place.elsewhere() or nobody}")
    if paused:
        place.say(f"{field_text(paused)}, nothing starts: `gpudeck unpause` starts tasks again")
    return 0


def _add_to_queue(command: Command) -> int:
    """Where there is no task file, or the queue is asked for."""
    from ...engine.runs.wanted import wanted_of
    from .run import queue, refuse_missing

    wanted = wanted_of(command, os.environ, "add")
    refuse_missing(wanted.command, wanted.environment)
    if command.flag("dry_run"):
        _show(
            Added((wanted.name,), table_lines("[[task]]", {"name": wanted.name, **wanted.entry})),
            "your queue",
            as_json=command.flag("json"),
        )
        return 0
    return queue(command, wanted, detach=True)


def _show(added: Added, where: str, *, as_json: bool) -> None:
    """What would be added."""
    if as_json:
        print_json({"would_add": list(added.names), "text": added.text})
    else:
        print(added.text, end="")
        say(f"nothing was added: this would go to {where}")


def _tell(added: Added, *, as_json: bool) -> None:
    """On standard output; who takes them up is said beside it."""
    if as_json:
        print_json({"added": list(added.names)})
        return
    for name in added.names:
        print(field_text(name))


def _left_waiting(place: Place, added: Added) -> int:
    """Tasks that have come into the file since the run ended, and that nobody has asked for."""
    if find_state(place.path, place.options) is None:
        return 0
    from ...engine.serve.offline import offline_look

    return len(set(offline_look(place, quiet=True).never_ran).difference(added.names))


def _what_bars(place: Place, added: Added) -> tuple[RunOptions, str]:
    """What the unfinished run was started with that leaves what was added out, nothing where it does not; and who has
    paused the deck."""
    if find_state(place.path, place.options) is None:
        return RunOptions(), ""
    from ...engine.serve.offline import offline_look

    found = offline_look(place, quiet=True).deck
    left_out = any(name in found.deck.by_name and not found.deck.by_name[name].selected for name in added.names)
    return which(found.options) if left_out else RunOptions(), found.deck.paused
