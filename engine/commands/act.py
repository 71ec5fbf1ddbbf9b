"""`gpudeck retry`, `cancel`, `kill`, `hold`, `release`, `priority`, `accept`: what is done to tasks."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..client.connection import Connection, Gone
from ..client.place import Place
from ..command import Command
from ..errors import UsageError
from ..headless.text import field_text, plural
from ..protocol.states import ACTIVE
from ..protocol.wire import TaskRow
from ..runs.typed import variables_of
from ..taskfile.kinds import LARGEST
from .asking import agreed, refuse_unasked
from .debugging import debug_env
from .gpus import named_gpus, refuse_other_gpus
from .look import rows_of
from .outcomes import Telling
from .rows import is_text, names_text
from .verb_table import ACTS


def run(command: Command) -> int:
    """Do it, started engine or not, wait until the engine has taken it, and tell what came of it."""
    verb, words, told = command.verb, list(command.words), Telling(command)
    more = _arguments(command, words)
    place = Place.of(command)
    connection = place.attach()
    if connection is not None:
        place.tell_environment()
    else:
        connection = _started(place, command, words, told, more.get("not_on", ()))
    if connection is None:
        return 0
    with connection:
        names: list[str] = connection.request("select", select=words)
        if not names:
            return told.nobody(words)
        before = rows_of(connection, names)
        chosen = _chosen(verb, before)
        if not chosen:
            told.nothing_to_do(before)
            _hint(verb, connection, place)
            return 0
        asks = _asks(words, before, chosen)
        if asks and not agreed(_question(command, chosen), yes=command.flag("yes")):
            return told.declined()
        if command.flag("debug"):
            simulated = connection.request("status")["head"]["simulated"]
            more["env"] = {**debug_env(chosen, simulated=simulated), **more["env"]}
        note = connection.request(verb, tasks=[row.name for row in chosen], **more).get("note", "")
        told.done(before, rows_of(connection, [row.name for row in chosen]), more.get("value"), field_text(note))
        if note:
            place.say(field_text(note))
        _hint(verb, connection, place)
    return 0


def _hint(verb: str, connection: Connection, place: Place) -> None:
    """An edit that nobody has applied has changed no task yet, so that there is nothing of it to accept."""
    if verb != "accept":
        return
    with contextlib.suppress(Gone):  # all is done and told
        if connection.request("status")["head"].get("file_plan"):
            kept = "`gpudeck apply --keep` applies that and keeps the results of changed tasks"
            place.say(f"the task file has changed: {kept}")


def _started(
    place: Place, command: Command, selectors: Sequence[str], told: Telling, gpus: Sequence[str]
) -> Connection | None:
    """An engine, which begins to run the deck: only where there is something to do to tasks and *gpus* of the deck, and
    somebody who can be asked where that is needed. None: there is nothing to do."""
    from ..offline.look import offline_look

    verb = command.verb
    found = offline_look(place, quiet=True)
    rows = found.rows(selectors)
    if not rows:
        told.nobody(selectors)
        return None
    under_way = any(row.state in ACTIVE or row.state == "unknown" for row in rows)  # what became of them shows then
    if not under_way and not _chosen(verb, rows):
        told.nothing_to_do(rows)
        return None
    if not under_way and _asks(selectors, rows, _chosen(verb, rows)):
        refuse_unasked(_question(command, _chosen(verb, rows)), yes=command.flag("yes"))
    if gpus:
        refuse_other_gpus(place, gpus)
    connection = place.start("act" if verb == "retry" or found.under_way else "note")
    if verb == "retry" and found.new:
        place.say(f"{plural(found.new, 'new task')} of the file: `gpudeck start` takes up what no retried task needs")
    return connection


def _arguments(command: Command, words: list[str]) -> dict[str, Any]:
    """What goes with the request; takes from *words* what is no selector."""
    match command.verb:
        case "priority":
            if len(words) < 2:
                raise UsageError("priority wants SEL and a number: `gpudeck priority train-1 10`")
            return {"value": _number(words.pop())}
        case "retry":
            given = command.given
            return {
                "fresh": command.flag("fresh"),
                "downstream": command.flag("downstream"),
                "env": variables_of(given.get("env") or ()),
                "not_on": [gpu for text in given.get("not_on") or () for gpu in named_gpus(text)],
            }
        case _:
            return {}


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"priority wants a whole number at the end, got {text!r}") from None
    if abs(number) > LARGEST:
        raise UsageError(f"priority wants a number from -{LARGEST} to {LARGEST}, got {number}")
    return number


def _chosen(verb: str, rows: Sequence[TaskRow]) -> list[TaskRow]:
    """Those that the verb does something to; [] where all are so already. Raises UsageError where it means none."""
    act = ACTS[verb]
    chosen = [row for row in rows if act.may(row)]
    if not chosen and not any(act.done(row) for row in rows):
        first = rows[0]
        more = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
        raise UsageError(f"{field_text(first.name)} {is_text(first)}{more}: {act.refusal}")
    return chosen


def _asks(words: Sequence[str], rows: Sequence[TaskRow], chosen: Sequence[TaskRow]) -> bool:
    """More tasks than one, and not all of what is meant was typed out by name."""
    return len(chosen) > 1 and not {row.name for row in rows} <= set(words)


def _question(command: Command, rows: Sequence[TaskRow]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in Counter(row.state for row in rows).items())
    names = field_text(names_text([row.name for row in rows]))
    return f"{command.verb} {len(rows)} tasks ({states}): {names}?"
