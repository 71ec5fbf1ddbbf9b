"""Readings of which only a part is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.deck import Deck
from ..core.spec import TaskSpec
from ..opening.opening import OpenDeck
from ..opening.run_options import decode, taking_in
from .plan import FilePlan
from .reading import Reading

_RULES = ("priority", "round", "group", "barrier", "needs", "after", "tags", "entry", "params", "position", "line")


def without_changes_of_running(reading: Reading, plan: FilePlan, deck: Deck) -> Reading:
    """The same file, with the tasks that run as they are, but for their order among others."""
    running = {change.name for change in plan.changed_running}

    def as_it_is(spec: TaskSpec) -> TaskSpec:
        rules: dict[str, Any] = {name: getattr(spec, name) for name in _RULES}
        return replace(deck.by_name[spec.name].spec, **rules)

    tasks = tuple(as_it_is(spec) if spec.name in running else spec for spec in reading.file.tasks)
    return replace(reading, file=replace(reading.file, tasks=tasks, text=""))


def with_only(reading: Reading, opened: OpenDeck, names: frozenset[str]) -> Reading:
    """The file as the deck has it, and those new tasks of the reading that *names* has, whatever is selected."""
    old = opened.file
    have = {spec.name for spec in old.tasks}
    added = [spec for spec in reading.file.tasks if spec.name in names and spec.name not in have]
    placed = (replace(spec, position=len(old.tasks) + place) for place, spec in enumerate(added))
    shards = {entry: count for entry, count in reading.file.fixed_shards.items() if entry not in old.fixed_shards}
    file = replace(
        old,
        tasks=(*old.tasks, *placed),
        selected=None if old.selected is None else old.selected | {spec.name for spec in added},
        fixed_shards={**old.fixed_shards, **shards},
    )
    before = decode(opened.options)
    options = taking_in(before, [spec.name for spec in added])
    return replace(reading, file=file, options=options if options != before else None)
