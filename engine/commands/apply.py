"""`gpudeck apply`: the deck becomes what its task file says now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..client import Connection
from ..command import Command
from ..headless.text import field_text, plural
from .act import portions
from .asking import agreed
from .look import LiveLook, Look
from .place import Place
from .rows import ENDED, names_text


def run(command: Command) -> int:
    """Show the plan, ask, and apply it. Finished tasks that an edit has changed, this one or an earlier one, run again;
    with --keep all of them keep their results."""
    place = Place.of(command)
    dry_run, keep = command.flag("dry_run"), command.flag("keep")
    connection = place.attach()
    if connection is None and dry_run:
        return _dry_offline(place, keep=keep)
    kept = {"keep": True} if keep else {}
    with connection or place.start() as engine:
        plan: dict[str, Any] = engine.request("apply", dry_run=True, **kept)
        before = _changed(LiveLook(engine))
        _show(plan["lines"] if plan["changes"] else [], before, keep=keep)
        if dry_run or not (plan["changes"] or before):
            return 0
        if not agreed("apply this?", yes=command.flag("yes")):
            print("nothing was applied")
            return 1
        if plan["changes"] or keep:
            applied: dict[str, Any] = engine.request("apply", digest=plan["digest"], **kept)
            _told(applied)
        if not keep:
            _run_again(engine)
    return 0


def _told(answer: Mapping[str, Any]) -> None:
    if answer["changes"]:
        print(f"apply: {field_text(answer['text'])}")
    if kept := answer["applied"]["kept"]:
        print(f"apply: {plural(len(kept), 'result')} kept: {field_text(names_text(kept))}")


def _run_again(engine: Connection) -> None:
    """Finished tasks that have been changed, by whichever edit."""
    if again := _changed(LiveLook(engine)):
        for portion in portions(again):
            engine.request("retry", tasks=portion)
        print(f"apply: {plural(len(again), 'changed task')} again: {field_text(names_text(again))}")


def _dry_offline(place: Place, *, keep: bool) -> int:
    from ..offline.look import offline_look

    _show([], _changed(offline_look(place)), keep=keep)
    print("the next start takes the file as it is now; `gpudeck plan` shows what it would run")
    return 0


def _changed(look: Look) -> list[str]:
    """Finished tasks that have been changed since."""
    return [row.name for row in look.rows(()) if row.changed and row.state in ENDED]


def _show(lines: Sequence[str], before: Sequence[str], *, keep: bool) -> None:
    for line in lines:
        print(field_text(line))
    if before:
        means = "keep their results" if keep else "run again, unless their results are kept (--keep)"
        print(f"{'changed earlier':<21} {field_text(names_text(before))}: they {means}")
    if not lines and not before:
        print("nothing has changed")
