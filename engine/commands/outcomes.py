"""What came of a verb, in lines or as one JSON object: to whom something was done, and to whom not and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..command import Command
from ..protocol.states import ACTIVE
from ..protocol.wire import TaskRow
from ..text import field_text, names_text, plural
from .rows import is_text
from .screen import print_json
from .verb_table import ACTS

_LISTED = 20
"""Outcomes told one by one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one task."""

    row: TaskRow
    """As it is now."""
    text: str
    done: bool
    """Something was done to it."""


class Telling:
    """What came of a command, in lines or as JSON."""

    def __init__(self, command: Command) -> None:
        self._verb = command.verb
        self._act = ACTS[command.verb]
        self._json = command.flag("json")

    def nobody(self, selectors: Sequence[str]) -> int:
        """No task is meant."""
        why = f"no task is {' or '.join(selectors)} now"
        if self._json:
            self._tell([], why)
        else:
            print(f"{self._verb}: {why}")
        return 0

    def declined(self) -> int:
        if self._json:
            self._tell([], "nothing was done")
        else:
            print("nothing was done")
        return 1

    def nothing_to_do(self, rows: Sequence[TaskRow]) -> None:
        """All are so already."""
        self._tell([_unchanged(self._verb, row) for row in rows])

    def done(self, before: Sequence[TaskRow], after: Sequence[TaskRow], value: object, note: str) -> None:
        """*before*: of all that were meant; *after*: of those to whom it was done."""
        now = {row.name: row for row in after}
        outcomes = [_outcome(self._verb, row, now[row.name], value) for row in before if row.name in now]
        if self._json:
            outcomes += [self._refused(row) for row in before if row.name not in now]
        self._tell(outcomes, note)

    def _refused(self, row: TaskRow) -> Outcome:
        if self._act.done(row):
            return _unchanged(self._verb, row)
        return Outcome(row, f"{is_text(row)}: {self._act.refusal}", done=False)

    def _tell(self, outcomes: Sequence[Outcome], note: str = "") -> None:
        if self._json:
            _tell_json(self._verb, outcomes, note)
        else:
            _tell(self._verb, outcomes)


def _outcome(verb: str, before: TaskRow, after: TaskRow, value: object = None) -> Outcome:
    """*value*: the priority that was given."""
    if after.left_out and before.state not in ACTIVE:
        return Outcome(after, f"stays {after.state}: the run leaves it out (--only, --exclude or --limit)", done=False)
    return Outcome(after, _text(verb, before, after, value), done=True)


def _unchanged(verb: str, row: TaskRow) -> Outcome:
    """It was as it should be before."""
    if verb == "release":
        return Outcome(row, f"{is_text(row)}, and not held", done=False)
    if verb == "accept":
        return Outcome(row, f"{is_text(row)}: it is neither changed nor stale", done=False)
    if row.state == "backoff":
        return Outcome(row, is_text(row) + (", held already" if row.held else ""), done=False)
    flags = " and held" if row.held else ""
    return Outcome(row, f"{row.state}{flags} already", done=False)


def _tell(verb: str, outcomes: Sequence[Outcome]) -> None:
    """A line each, or where there are many one for each outcome."""
    if len(outcomes) <= _LISTED:
        for one in outcomes:
            print(f"{verb}: {field_text(one.row.name)} ({one.text})")
        return
    groups: dict[str, list[str]] = {}
    for one in outcomes:
        groups.setdefault(one.text, []).append(one.row.name)
    for text, names in groups.items():
        print(f"{verb}: {plural(len(names), 'task')} ({text}): {field_text(names_text(names))}")


def _tell_json(verb: str, outcomes: Sequence[Outcome], note: str = "") -> None:
    """*note*: what else there is to know; "" for nothing."""
    done = [_plain(one) for one in outcomes if one.done]
    refused = [_plain(one) for one in outcomes if not one.done]
    print_json({"verb": verb, "done": done, "refused": refused, "note": note})


def _plain(one: Outcome) -> dict[str, Any]:
    return {"name": one.row.name, "state": one.row.state, "attempt": one.row.attempt, "text": one.text}


def _text(verb: str, before: TaskRow, after: TaskRow, value: object) -> str:
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
            return f"priority {value}"
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
