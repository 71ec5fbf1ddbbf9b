"""What waits for what: every need finds a task, every round has one before it, nothing waits for itself."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from graphlib import CycleError, TopologicalSorter
from typing import Literal, cast

from ..core.selector import is_glob
from ..core.spec import TaskSpec
from .keys import Context
from .problems import BadValueError, did_you_mean
from .values import shown

_WILD = re.compile(r"[*?\[]")
_HINT_NAMES = 2000
_MAX_HINTS = 20
"""Finding near names among many takes long, so only the first problems get a hint."""


def check_order(tasks: list[TaskSpec], context: Context) -> None:
    """Note needs that match nothing, rounds without tasks before them and circles.

    A need that names a task with shards is rewritten to mean all of them. Beside other problems of the file only what
    these cannot change is noted.
    """
    _spell_out_shards(tasks, context)
    problems, index = context.checker, Index([task.name for task in tasks])
    if not problems:
        _check_rounds(tasks, context)
    if not context.nameless and any(task.needs or task.after for task in tasks):
        _check_matches(tasks, index, context)
        if not problems:
            _check_circles(tasks, index, context)


def _spell_out_shards(tasks: list[TaskSpec], context: Context) -> None:
    sharded = context.sharded
    if not sharded:
        return
    for position, task in enumerate(tasks):
        if not sharded.isdisjoint(task.needs) or not sharded.isdisjoint(task.after):
            needs, after = (_spelled(patterns, sharded) for patterns in (task.needs, task.after))
            tasks[position] = replace(task, needs=needs, after=after)


def _spelled(patterns: Sequence[str], sharded: set[str]) -> tuple[str, ...]:
    return tuple(f"{pattern}-shard[0-9]*" if pattern in sharded else pattern for pattern in patterns)


def _check_rounds(tasks: Sequence[TaskSpec], context: Context) -> None:
    first: dict[str, int] = {}
    rounds = [(task.group, task.round) for task in tasks]
    for group, number in (*rounds, *context.disabled_rounds):
        first[group] = min(number, first.get(group, number))
    for task in tasks:
        if task.round and task.round == first[task.group]:
            others = f'of group "{task.group}"' if task.group else "without a group"
            words = f"= {task.round}, but no task {others} is in an earlier round"
            context.entries[task.line].note(BadValueError(words), "round", where=f'task "{task.name}"')


def _check_matches(tasks: Sequence[TaskSpec], index: Index, context: Context) -> None:
    for position, task in enumerate(tasks):
        for key in ("needs", "after"):
            for pattern in getattr(task, key):
                found = index.find(pattern)
                if not found or found == [position]:
                    hint = len(context.checker) < _MAX_HINTS
                    words = _no_match(pattern, tasks, context, itself=bool(found), hint=hint)
                    context.entries[task.line].note(BadValueError(words), key, where=f'task "{task.name}"')


def _no_match(pattern: str, tasks: Sequence[TaskSpec], context: Context, *, itself: bool, hint: bool) -> str:
    if itself:
        return f"has {shown(pattern)}, which is only the task itself"
    if pattern in context.disabled:
        return f"has {shown(pattern)}, which is not enabled (line {context.disabled[pattern]})"
    names = [] if is_glob(pattern) or not hint else [task.name for task in tasks[:_HINT_NAMES]]
    near = did_you_mean(pattern, names)
    return f"has {shown(pattern)}, which matches no task" + (f": {near}" if near else "")


def _check_circles(tasks: Sequence[TaskSpec], index: Index, context: Context) -> None:
    circle = _Waits(tasks, index).circle()
    if circle is not None:
        first, key = circle[0], _link(circle[0], circle[1])
        words = "make a circle: " if key == "needs" else "makes a circle: "
        words += ", ".join(_step(circle[at], circle[at + 1]) for at in range(len(circle) - 1))
        context.entries[first.line].note(BadValueError(words), key, where=f'task "{first.name}"')


def _step(task: TaskSpec, other: TaskSpec) -> str:
    match _link(task, other):
        case "needs":
            return f"{task.name} needs {other.name}"
        case "after":
            return f"{task.name} comes after {other.name}"
        case "round":
            return f"{task.name} (round {task.round}) waits for {other.name} (round {other.round})"


def _link(task: TaskSpec, other: TaskSpec) -> Literal["needs", "after", "round"]:
    """The key by which it waits for the other."""
    index = Index([other.name])
    if any(map(index.find, task.needs)):
        return "needs"
    return "after" if any(map(index.find, task.after)) else "round"


@dataclass(slots=True)
class _Waits:
    """A graph whose nodes are tasks, patterns that several tasks share, and the starts of rounds.

    Nodes are numbers: a task's is its position, the others follow. So 100,000 tasks that need 1,000 others by one glob
    have 101,000 edges, not 100 million.
    """

    tasks: Sequence[TaskSpec]
    index: Index
    edges: list[list[int]] = field(default_factory=list[list[int]])
    patterns: dict[str, int] = field(default_factory=dict[str, int])
    rounds: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    inside: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Tasks that a pattern of theirs matches, too. Two of the same pattern are a circle, so more are not looked at."""

    def circle(self) -> list[TaskSpec] | None:
        """Tasks that wait for each other in turn, the first one again at the end; None: there are none."""
        self.edges = [[] for _ in self.tasks]
        self._add_rounds()
        for position, task in enumerate(self.tasks):
            if (task.group, task.round) in self.rounds:
                self.edges[position].append(self.rounds[task.group, task.round])
            for pattern in (*task.needs, *task.after):
                self._add_pattern(position, pattern)
        try:
            TopologicalSorter(dict(enumerate(self.edges))).prepare()
        except CycleError as error:
            return self._named(cast("list[int]", error.args[1])[:0:-1])
        return None

    def _add_rounds(self) -> None:
        members: dict[str, dict[int, list[int]]] = {}
        for position, task in enumerate(self.tasks):
            members.setdefault(task.group, {}).setdefault(task.round, []).append(position)
        for group, rounds in members.items():
            before: list[int] = []
            for number in sorted(rounds):
                if before:
                    self.rounds[group, number] = self._node(before)
                before = rounds[number] + ([self.rounds[group, number]] if before else [])

    def _add_pattern(self, position: int, pattern: str) -> None:
        found = self.index.find(pattern)
        if len(found) > 1 and not _holds(found, position):
            if pattern not in self.patterns:
                self.patterns[pattern] = self._node(found)
            self.edges[position].append(self.patterns[pattern])
        elif len(self.inside.setdefault(pattern, [])) < 2:
            self.inside[pattern].append(position)
            self.edges[position] += [other for other in found if other != position]

    def _node(self, edges: list[int]) -> int:
        self.edges.append(edges)
        return len(self.edges) - 1

    def _named(self, nodes: list[int]) -> list[TaskSpec]:
        tasks = [node for node in nodes if node < len(self.tasks)]
        start = tasks.index(min(tasks))
        return [self.tasks[node] for node in (*tasks[start:], *tasks[:start], tasks[start])]


def _holds(positions: Sequence[int], position: int) -> bool:
    at = bisect_left(positions, position)
    return at < len(positions) and positions[at] == position


class Index:
    """Positions of names, for patterns as `needs` has them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._position = {name: position for position, name in enumerate(names)}
        self._sorted: list[str] | None = None
        self._found: dict[str, list[int]] = {}

    def find(self, pattern: str) -> list[int]:
        """Positions of the names that *pattern* means, in order."""
        if pattern not in self._found:
            self._found[pattern] = self._globbed(pattern) if is_glob(pattern) else self._named(pattern)
        return self._found[pattern]

    def _named(self, name: str) -> list[int]:
        return [self._position[name]] if name in self._position else []

    def _globbed(self, pattern: str) -> list[int]:
        match = re.compile(translate(pattern)).match
        return sorted(self._position[name] for name in self._candidates(pattern) if match(name))

    def _candidates(self, pattern: str) -> Sequence[str]:
        """Names that begin as *pattern* does before its first wildcard."""
        start = _WILD.split(pattern, maxsplit=1)[0]
        if not start:
            return self._names
        if self._sorted is None:
            self._sorted = sorted(self._names)
        first = bisect_left(self._sorted, start)
        return self._sorted[first : bisect_left(self._sorted, start + "\U0010ffff", first)]
