"""What waits for what: every need finds a task, every round has one before it, nothing waits for itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..core.names import is_glob
from ..core.spec import TaskSpec
from .context import Context
from .index import Index
from .problems import BadValueError, did_you_mean
from .said import Said
from .unmade import Unmade
from .values import shown

_HINT_NAMES = 2000
_MAX_HINTS = 20
"""Finding near names among many takes long, so only the first problems get a hint."""


def check_order(tasks: list[TaskSpec], context: Context, entries: dict[int, Said], unmade: Sequence[Said] = ()) -> None:
    """Note needs that match nothing, rounds without tasks before them and circles; *entries* by line.

    A need that names a task with shards is rewritten to mean all of them. *unmade*: entries that have no tasks because
    of their mistakes; only what they cannot change is noted then.
    """
    _spell_out_shards(tasks, context)
    index = Index([task.name for task in tasks])
    if unmade:
        _check_beside(Unmade(unmade), tasks, index, context, entries)
        return
    before = len(context.checker.problems)
    _check_rounds(tasks, context, entries)
    if any(task.needs or task.after for task in tasks):
        _check_matches(tasks, index, context, entries)
        if len(context.checker.problems) == before:
            _check_circles(tasks, index, entries)


def _check_beside(
    unmade: Unmade, tasks: Sequence[TaskSpec], index: Index, context: Context, entries: dict[int, Said]
) -> None:
    """Note needs that match nothing, whatever the entries that could not be made would have made."""
    _check_matches(tasks, index, context, entries, unmade)
    for said, key, pattern in unmade.wants():
        if not index.find(pattern) and pattern not in context.sharded and not unmade.may_have(pattern):
            said.note(BadValueError(_no_match(pattern, tasks, context, itself=False, hint=True)), key)


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


def _check_rounds(tasks: Sequence[TaskSpec], context: Context, entries: dict[int, Said]) -> None:
    first: dict[str, int] = {}
    rounds = [(task.group, task.round) for task in tasks]
    for group, number in (*rounds, *context.disabled_rounds):
        first[group] = min(number, first.get(group, number))
    for task in tasks:
        if task.round and task.round == first[task.group]:
            others = f'of group "{task.group}"' if task.group else "without a group"
            words = f"= {task.round}, but no task {others} is in an earlier round"
            entries[task.line].note(BadValueError(words), "round", where=f'task "{task.name}"')


def _check_matches(
    tasks: Sequence[TaskSpec], index: Index, context: Context, entries: dict[int, Said], unmade: Unmade | None = None
) -> None:
    for position, task in enumerate(tasks):
        for key in ("needs", "after"):
            for pattern in getattr(task, key):
                found = index.find(pattern)
                if (not found or found == [position]) and not (unmade and unmade.may_have(pattern)):
                    hint = len(context.checker.problems) < _MAX_HINTS
                    words = _no_match(pattern, tasks, context, itself=bool(found), hint=hint)
                    entries[task.line].note(BadValueError(words), key, where=f'task "{task.name}"')


def _no_match(pattern: str, tasks: Sequence[TaskSpec], context: Context, *, itself: bool, hint: bool) -> str:
    if itself:
        return f"has {shown(pattern)}, which is only the task itself"
    if pattern in context.disabled:
        return f"has {shown(pattern)}, which is not enabled (line {context.disabled[pattern]})"
    names = [] if is_glob(pattern) or not hint else [task.name for task in tasks[:_HINT_NAMES]]
    near = did_you_mean(pattern, names)
    return f"has {shown(pattern)}, which matches no task" + (f": {near}" if near else "")


def _check_circles(tasks: Sequence[TaskSpec], index: Index, entries: dict[int, Said]) -> None:
    circle = _Waits(tasks, index).circle()
    if circle is not None:
        first, key = circle[0], _link(circle[0], circle[1])
        words = "make a circle: " if key == "needs" else "makes a circle: "
        words += ", ".join(_step(circle[at], circle[at + 1]) for at in range(len(circle) - 1))
        entries[first.line].note(BadValueError(words), key, where=f'task "{first.name}"')


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
        nodes = _find_circle(self.edges)
        return None if nodes is None else self._named(nodes)

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


def _find_circle(edges: Sequence[Sequence[int]]) -> list[int] | None:
    """Nodes of one circle, by a depth-first search without recursion."""
    new, open_, done = 0, 1, 2
    state = [new] * len(edges)
    for root in range(len(edges)):
        if state[root] != new or not edges[root]:
            continue
        path, below = [root], [iter(edges[root])]
        state[root] = open_
        while path:
            node = next(below[-1], None)
            if node is None:
                below.pop()
                state[path.pop()] = done
            elif state[node] == open_:
                return path[path.index(node) :]
            elif state[node] == new:
                state[node] = open_
                path.append(node)
                below.append(iter(edges[node]))
    return None
