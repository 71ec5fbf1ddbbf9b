"""`gpudeck apply`: the deck becomes what its task file says now."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...engine.client.connection import Connection
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.errors import TaskFileError
from ...engine.protocol.states import ENDED
from ...engine.text import field_text, names_text, plural
from .look import LiveLook, Look
from .screen import agreed, print_json
from .stop import end_again

_NEXT_START = "the next start takes the file as it is now; `gpudeck plan` shows what it would run"


def run(command: Command) -> int:
    """Show the plan, ask, and apply it. Finished tasks that this edit has changed run again; with --keep they keep
    their results, and so do those that an earlier one has changed."""
    place = Place.of(command)
    dry_run, keep = command.flag("dry_run"), command.flag("keep")
    told = _Telling(place, as_json=command.flag("json"), dry_run=dry_run, keep=keep)
    connection = place.attach()
    if connection is None:
        return _offline(place, told, command)
    kept = {"keep": True} if keep else {}
    with connection as engine:
        plan: dict[str, Any] = engine.request("apply", dry_run=True, **kept)
        before = _changed(LiveLook(engine))
        told.planned(plan, before)
        if dry_run or not (plan["changes"] or (keep and before)):
            return told.end()
        if not agreed("apply this?", yes=command.flag("yes")):
            return told.declined()
        told.applied(engine.request("apply", digest=plan["digest"], **kept))
        place.tell_what_bars(engine)
    return told.end()


def _offline(place: Place, told: _Telling, command: Command) -> int:
    """Without an engine the file is compared with what the deck took last; one is started once that is agreed to."""
    from ...engine.live import words
    from ...engine.serve.offline import offline_look

    found, keep = offline_look(place), command.flag("keep")
    if found.deck.broken:
        raise TaskFileError(found.deck.broken.splitlines())
    if found.deck.state is None or not found.deck.journal.run:  # nothing runs yet, as was said: a start takes the file
        if command.flag("dry_run"):
            told.note(_NEXT_START)
        return told.end()
    plan, before = found.edits(), _changed(found)
    if plan is not None:  # the rows are of the deck as the file makes it now
        before = [name for name in before if name not in {change.name for change in plan.changed_finished}]
    lines = words.lines(plan, keep=keep) if plan else []
    added = plan.added if plan else ()
    if never_ran := [name for name in found.never_ran if name not in added]:
        lines = [*lines, f"{'never ran':<21} {names_text(never_ran)}: they start when they can"]
    begins = [*plan.added, *(change.name for change in plan.changed_waiting)] if plan else []
    elsewhere = {*begins, *(plan.gone_waiting if plan else ())}
    if lines and not found.under_way and (rest := [name for name in found.waiting if name not in elsewhere]):
        lines = [*lines, f"{'the run goes on':<21} {names_text(rest)}: what waits starts, too"]
    told.planned({"changes": bool(plan or never_ran), "lines": lines, "plan": msgspec.to_builtins(plan)}, before)
    if command.flag("dry_run"):
        told.note(_NEXT_START)
        return told.end()
    if not (plan or never_ran or (keep and before)):
        return told.end()
    if not agreed("apply this?", yes=command.flag("yes")):
        return told.declined()
    changed = [change.name for change in plan.changed_finished] if plan else []
    with place.start("act") as engine, contextlib.ExitStack() as undo:
        undo.callback(end_again, place, engine)
        if plan:
            answer = engine.request("apply", digest=plan.digest, **({"keep": True} if keep else {}))
            undo.pop_all()
            if not answer["changes"]:  # after a run has ended the engine begins with the file as it is
                told.note(f"apply: {field_text(words.summary(plan))}")
            for line in answer["lines"]:
                if line not in lines:  # a setting that an engine which runs cannot change
                    told.note(field_text(line))
            told.applied({**answer, "applied": {**answer["applied"], "plan": msgspec.to_builtins(plan)}})
        elif before and keep:
            told.applied(engine.request("apply", keep=True))
        undo.pop_all()
        if changed and not keep:
            told.again(_run_again(engine, changed))
        place.tell_what_bars(engine)
        if found.deck.deck.run.halted and begins:  # what the halt has left waits
            engine.request("retry", tasks=begins, changed=True)
        else:
            engine.request("start")
    return told.end()


class _Telling:
    """What an edit changes and what came of it, in lines as it happens, or as one JSON object at the end."""

    def __init__(self, place: Place, *, as_json: bool, dry_run: bool, keep: bool) -> None:
        self._place = place
        self._json = as_json
        self._keep = keep
        self._told: dict[str, Any] = {
            "dry_run": dry_run, "changes": False, "lines": [], "plan": None, "changed_earlier": [], "applied": None,
            "again": [], "note": "",
        }  # fmt: skip

    def planned(self, plan: Mapping[str, Any], before: Sequence[str]) -> None:
        lines: list[str] = plan["lines"] if plan["changes"] else []
        self._told |= {"changes": plan["changes"], "lines": lines, "plan": plan["plan"], "changed_earlier": before}
        if not self._json:
            _show(lines, before, keep=self._keep)

    def applied(self, answer: Mapping[str, Any]) -> None:
        self._told["applied"] = answer["applied"]
        if self._json:
            return
        if answer["changes"]:
            print(f"apply: {field_text(answer['text'])}")
        if kept := answer["applied"]["kept"]:
            print(f"apply: {plural(len(kept), 'result')} kept: {field_text(names_text(kept))}")

    def again(self, names: Sequence[str]) -> None:
        self._told["again"] = names
        if names and not self._json:
            print(f"apply: {plural(len(names), 'changed task')} taken up: {field_text(names_text(names))}")

    def note(self, text: str) -> None:
        self._told["note"] = text = self._place.hints.completed(text)
        if not self._json:
            print(text)

    def declined(self) -> int:
        self.note("nothing was applied")
        return self.end() or 1

    def end(self) -> int:
        if self._json:
            print_json(self._told)
        return 0


def _run_again(engine: Connection, names: Sequence[str]) -> list[str]:
    """Of these, finished tasks that have been changed."""
    again = [name for name in _changed(LiveLook(engine)) if name in names]
    if again:
        engine.request("retry", tasks=again, changed=True)
    return again


def _changed(look: Look) -> list[str]:
    """Finished tasks that have been changed since."""
    return [row.name for row in look.rows(()) if row.changed and not row.left_out and row.state in ENDED]


def _show(lines: Sequence[str], before: Sequence[str], *, keep: bool) -> None:
    for line in lines:
        print(field_text(line))
    if not lines:
        print("nothing has changed")
    if before:
        means = (
            "they keep their results" if keep else "`gpudeck retry state:changed` runs them again, --keep keeps them"
        )
        print(f"{'changed earlier':<21} {field_text(names_text(before))}: {means}")
