"""What a job waits for: needs, after and rounds as jobs that must succeed, or end, before it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from ..core.spec import TaskSpec, is_glob, matching


@dataclass(frozen=True, slots=True)
class Waits:
    """Names of tasks, in file order."""

    ok: tuple[str, ...] = ()
    """Those that must have succeeded."""
    ended: tuple[str, ...] = ()
    """Those that must have ended, however; none that is in `ok`."""


NOTHING = Waits()


def waits_of(tasks: Sequence[TaskSpec], *, done: Set[str]) -> dict[str, Waits]:
    """By task, what it waits for among *tasks*: all that are selected. Those in *done* have succeeded: nobody waits for
    them. What is needed and not among *tasks* is passed over (see `missing`)."""
    place = {spec.name: number for number, spec in enumerate(tasks)}
    found = _Patterns(place)
    rounds = _Rounds(tasks, done)
    waits: dict[str, Waits] = {}
    for spec in tasks:
        ok, ended = rounds.before(spec)
        ok |= {name for pattern in spec.needs for name in found.members(pattern, spec.name)}
        ended |= {name for pattern in spec.after for name in found.members(pattern, spec.name)}
        ok -= done
        waits[spec.name] = Waits(*(tuple(sorted(names, key=place.__getitem__)) for names in (ok, ended - ok - done)))
    return waits


def missing(tasks: Sequence[TaskSpec], all_tasks: Sequence[TaskSpec], *, done: Set[str]) -> dict[str, list[str]]:
    """By task, what it needs that is neither among *tasks*, those that are selected, nor done."""
    chosen = {spec.name for spec in tasks}
    left_out = [spec.name for spec in all_tasks if spec.name not in chosen and spec.name not in done]
    found = _Patterns(left_out)
    by_task = {spec.name: [name for pattern in spec.needs for name in found.members(pattern, "")] for spec in tasks}
    return {task: names for task, names in by_task.items() if names}


class _Patterns:
    """Tasks by name or glob; each pattern is looked up once."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._found: dict[str, list[str]] = {}

    def members(self, pattern: str, own: str) -> list[str]:
        """A glob never means *own*, the task that has it."""
        if not is_glob(pattern):
            return [pattern] if pattern in self._names else []
        if pattern not in self._found:
            self._found[pattern] = matching(pattern, self._names)
        return [name for name in self._found[pattern] if name != own]


class _Rounds:
    """The rounds of each group, without what is done."""

    def __init__(self, tasks: Sequence[TaskSpec], done: Set[str]) -> None:
        self._groups: dict[str, dict[int, list[TaskSpec]]] = defaultdict(lambda: defaultdict(list))
        for spec in tasks:
            if spec.name not in done:
                self._groups[spec.group][spec.round].append(spec)

    def before(self, spec: TaskSpec) -> tuple[set[str], set[str]]:
        """The tasks of earlier rounds that must have succeeded, and that must have ended.

        Of rounds that had to succeed the newest is enough: none of its tasks has begun before those of the rounds
        before it succeeded. One that ended may have been taken off the queue, so those need all of them.
        """
        rounds = self._groups[spec.group]
        earlier: set[str] = set()
        for number in sorted((number for number in rounds if number < spec.round), reverse=True):
            earlier |= {task.name for task in rounds[number]}
            if spec.barrier == "succeeded" and all(task.barrier == "succeeded" for task in rounds[number]):
                break
        return (earlier, set()) if spec.barrier == "succeeded" else (set(), earlier)
