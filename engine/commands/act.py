"""`gpudeck retry`, `cancel`, `kill`, `hold`, `release`, `priority`, `accept`: what is done to tasks."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client import Connection, Gone
from ..command import Command
from ..errors import UsageError
from ..headless.text import field_text, plural
from ..protocol.wire import REQUEST_LIMIT, TaskRow
from ..runs.typed import variables_of
from ..taskfile.kinds import LARGEST
from .asking import agreed, refuse_unasked
from .gpus import named_gpus, refuse_other_gpus
from .look import rows_of
from .place import Place, say
from .rows import ACTIVE, ENDED, is_text, names_text

_BEFORE_STARTS = ("cancel", "kill", "hold", "priority")
"""Verbs that decide what an engine that is started for them begins with."""
_LISTED = 20
"""Outcomes told one by one."""


@dataclass(frozen=True, slots=True)
class Act:
    """One of the verbs: whom it means, and how it is told."""

    may: Callable[[TaskRow], bool]
    """It does something to such a task."""
    done: Callable[[TaskRow], bool]
    """Such a task is already as it would be."""
    refusal: str
    """Why it does nothing to other ones: "only what has ended can be retried"."""


def _always(_: TaskRow) -> bool:
    return True


def _never(_: TaskRow) -> bool:
    return False


_ACTS: dict[str, Act] = {
    "retry": Act(
        lambda row: row.state in ENDED or row.state in ("backoff", "unknown"),
        _never,
        "only what has ended can be retried",
    ),
    "cancel": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be cancelled",
    ),
    "kill": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be killed",
    ),
    "hold": Act(
        lambda row: row.state not in ENDED and not row.held,
        lambda row: row.held,
        "only what has not ended can be held",
    ),
    "release": Act(lambda row: row.held, lambda row: not row.held, "it is not held"),
    "priority": Act(_always, _never, ""),
    "accept": Act(
        lambda row: row.changed or row.stale or row.state in ACTIVE,
        lambda row: not (row.changed or row.stale),
        "only what is changed or stale has something to accept",
    ),
}


def run(command: Command) -> int:
    """Do it, started engine or not, wait until the engine has taken it, and tell what came of it."""
    verb, words = command.verb, list(command.words)
    more = _arguments(command, words)
    place = Place.of(command)
    connection = place.attach()
    if connection is not None:
        place.tell_environment()
    else:
        connection = _started(place, command, words, more.get("not_on", ()))
    if connection is None:
        return 0
    with connection:
        names: list[str] = connection.request("select", select=words)
        if not names:
            return _nothing(verb, words)
        before = rows_of(connection, names)
        chosen = _chosen(verb, before)
        if not chosen:
            _tell(verb, [(row, _already(row)) for row in before])
            _hint(verb, connection)
            return 0
        asks = _asks(words, before, chosen)
        if asks and not agreed(_question(command, chosen), yes=command.flag("yes")):
            print("nothing was done")
            return 1
        note = ""
        for portion in portions([row.name for row in chosen]):
            note = connection.request(verb, tasks=portion, **more).get("note", "")
        _tell(verb, _outcomes(connection, verb, chosen, more))
        if note:
            say(field_text(note))
        _hint(verb, connection)
    return 0


def _hint(verb: str, connection: Connection) -> None:
    """An edit that nobody has applied has changed no task yet, so that there is nothing of it to accept."""
    if verb != "accept":
        return
    with contextlib.suppress(Gone):  # all is done and told
        if connection.request("status")["head"].get("file_plan"):
            say("the task file has changed: `gpudeck apply --keep` applies that and keeps the results of changed tasks")


def _nothing(verb: str, selectors: Sequence[str]) -> int:
    print(f"{verb}: no task is {' or '.join(selectors)} now")
    return 0


def _started(place: Place, command: Command, selectors: Sequence[str], gpus: Sequence[str]) -> Connection | None:
    """An engine, which begins to run the deck: only where there is something to do to tasks and *gpus* of the deck, and
    somebody who can be asked where that is needed. None: there is nothing to do."""
    from ..offline.look import offline_look

    verb = command.verb
    rows = offline_look(place, quiet=True).rows(selectors)
    if not rows:
        _nothing(verb, selectors)
        return None
    under_way = any(row.state in ACTIVE or row.state == "unknown" for row in rows)  # what became of them shows then
    if not under_way and not _chosen(verb, rows):
        _tell(verb, [(row, _already(row)) for row in rows])
        return None
    if not under_way and _asks(selectors, rows, _chosen(verb, rows)):
        refuse_unasked(_question(command, _chosen(verb, rows)), yes=command.flag("yes"))
    if gpus:
        refuse_other_gpus(place, gpus)
    return place.start(asks_first=verb in _BEFORE_STARTS)


def _arguments(command: Command, words: list[str]) -> dict[str, Any]:
    """What goes with the request; takes from *words* what is no selector."""
    match command.verb:
        case "priority":
            if len(words) < 2:
                raise UsageError("priority wants SEL and a number: gpudeck priority train-1 10")
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
    act = _ACTS[verb]
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


def portions(names: Sequence[str]) -> Iterator[list[str]]:
    """A request has a limit."""
    portion: list[str] = []
    size = 0
    for name in names:
        if size > REQUEST_LIMIT // 4:
            yield portion
            portion, size = [], 0
        portion.append(name)
        size += len(name) + 4
    if portion:
        yield portion


# -- what came of it ---------------------------------------------------------------------------------------------------


def _outcomes(
    connection: Connection, verb: str, chosen: Sequence[TaskRow], more: Mapping[str, Any]
) -> list[tuple[TaskRow, str]]:
    after = {row.name: row for row in rows_of(connection, [row.name for row in chosen])}
    return [(row, _outcome(verb, row, after[row.name], more)) for row in chosen]


def _outcome(verb: str, before: TaskRow, after: TaskRow, more: Mapping[str, Any]) -> str:
    if after.left_out and before.state not in ACTIVE:
        return f"stays {after.state}: the run leaves it out (--only, --exclude or --limit)"
    match verb:
        case "retry":
            return _retried(before, after)
        case "cancel" | "kill":
            return _cancelled(after)
        case "hold":
            return "held" + (f"; attempt {after.attempt} goes on" if after.state in ACTIVE else "")
        case "release":
            return f"released, {after.state}"
        case "priority":
            return f"priority {more['value']}"
        case _:
            return "its result counts as it is"


def _retried(before: TaskRow, after: TaskRow) -> str:
    if after.attempt > before.attempt:
        return f"attempt {after.attempt} {'is ' if after.state in ACTIVE else 'has '}{after.state}"
    held = ", held" if after.held else ""
    return f"attempt {after.attempt + 1} is {after.state}{held}"


def _cancelled(after: TaskRow) -> str:
    if after.state in ("stopping", "closing"):
        return f"attempt {after.attempt} is being stopped"
    return after.state


def _already(row: TaskRow) -> str:
    if row.state == "backoff":
        return is_text(row) + (", held already" if row.held else "")
    flags = " and held" if row.held else ""
    return f"{row.state}{flags} already"


def _tell(verb: str, outcomes: Sequence[tuple[TaskRow, str]]) -> None:
    """A line each, or where there are many one for each outcome."""
    if len(outcomes) <= _LISTED:
        for row, text in outcomes:
            print(f"{verb}: {field_text(row.name)} ({text})")
        return
    groups: dict[str, list[str]] = {}
    for row, text in outcomes:
        groups.setdefault(text, []).append(row.name)
    for text, names in groups.items():
        print(f"{verb}: {plural(len(names), 'task')} ({text}): {field_text(names_text(names))}")
