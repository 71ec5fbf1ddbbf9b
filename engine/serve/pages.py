"""The further pages of a screen: attempts over time, entries and rounds, failures. No file is read here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Annotated, TypeVar

import msgspec

from ..core.deck import Deck, Task
from ..core.explain import Explainer
from ..core.gates import Gate, GateState
from ..core.gpu_names import indices
from ..core.phases import NAMES, Ended, Failed
from ..logs.described import describe
from ..logs.failure import hint_of
from ..logs.files import AttemptPaths
from ..protocol.pages import (
    AttemptRow,
    BarrierState,
    EdgeKind,
    Failure,
    Failures,
    Graph,
    GraphBarrier,
    GraphBox,
    GraphEdge,
    TimelinePage,
)

AT_ONCE = 1000
"""Tasks looked at in one turn of the loop."""
MOST = 500
TOLD_AT_ONCE = 100
"""Tasks that are told of in one turn."""

Paths = Callable[[str, int], AttemptPaths]
"""Where the files of an attempt of a task are."""


class FailuresArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = MOST


async def failures(deck: Deck, args: FailuresArgs, paths: Paths, index_of: Mapping[str, int]) -> Failures:
    """*index_of*: GPUs by UUID."""
    failed = [task async for task in in_turns(deck.tasks) if isinstance(task.phase, Failed)]
    newest = nlargest(args.limit, failed, key=_last_end)
    told = [failure_of(task, paths, index_of) async for task in in_turns(newest, TOLD_AT_ONCE)]
    return Failures(total=len(failed), failures=told)


def _last_end(task: Task) -> float:
    return task.ended[-1].wall if task.ended else 0.0


def failure_of(task: Task, paths: Paths, index_of: Mapping[str, int]) -> Failure:
    """What is known of a failed task."""
    last = task.ended[-1] if task.ended else None
    outcome = task.phase.outcome if isinstance(task.phase, Failed) else last.outcome if last is not None else None
    files = None if last is None else paths(task.name, last.number)
    return Failure(
        task=task.name,
        attempt=0 if last is None else last.number,
        kind="" if outcome is None else outcome.reason,
        reason="" if outcome is None else describe(outcome),
        hint="" if outcome is None else hint_of(outcome, task.spec),
        exit_code=None if outcome is None else outcome.exit_code,
        gpus=() if last is None else indices(last.gpus, index_of),
        nodes=() if last is None else last.nodes,
        ended=0.0 if last is None else round(last.wall, 3),
        duration_s=0.0 if last is None else round(last.duration_s, 3),
        log="" if files is None else files.out,
        err="" if files is None else files.err,
    )


ATTEMPTS_AT_ONCE = 500
"""Tasks looked at in one turn of the loop, and attempts in one answer, at most (but for those of the last task)."""


class TimelineArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: float = 0.0
    """What ended before this (seconds since the epoch) is left out."""
    runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Only the newest so many runs; 0: all."""
    start: Annotated[int, msgspec.Meta(ge=0)] = 0
    """`next` of the answer before."""


async def timeline(deck: Deck, args: TimelineArgs, index_of: Mapping[str, int], now_wall_s: float) -> TimelinePage:
    """The next portion. *index_of*: GPUs by UUID. Tasks that move meanwhile, because the file changed, may be told of
    twice or not at all. Those that the file no longer has come last."""
    found: list[AttemptRow] = []
    gone = [name for name in deck.past.ended if name not in deck.by_name]
    place, total = args.start, len(deck.tasks) + len(gone)
    while place < total and len(found) < ATTEMPTS_AT_ONCE:
        end = min(place + ATTEMPTS_AT_ONCE, total)
        while place < end and len(found) < ATTEMPTS_AT_ONCE:
            if place < len(deck.tasks):
                found += attempts_of(deck, deck.tasks[place], args, index_of)
            else:
                name = gone[place - len(deck.tasks)]
                found += _ended(deck, name, deck.past.ended[name], args, index_of)
            place += 1
        await asyncio.sleep(0)
    return TimelinePage(attempts=found, now=now_wall_s, next=place if place < total else None)


def _ended(
    deck: Deck, name: str, attempts: Sequence[Ended], args: TimelineArgs, index_of: Mapping[str, int]
) -> Iterator[AttemptRow]:
    oldest_run = deck.run.number - args.runs + 1 if args.runs else 0
    for ended in attempts:
        if ended.wall >= args.since and ended.run >= oldest_run:
            yield AttemptRow(
                task=name,
                attempt=ended.number,
                gpus=indices(ended.gpus, index_of),
                start=round(ended.wall - ended.duration_s, 3),
                end=round(ended.wall, 3),
                kind=ended.outcome.reason,
                run=ended.run,
                nodes=ended.nodes,
            )


def attempts_of(deck: Deck, task: Task, args: TimelineArgs, index_of: Mapping[str, int]) -> Iterator[AttemptRow]:
    """One task's attempts, oldest first."""
    yield from _ended(deck, task.name, task.ended, args, index_of)
    attempt = task.attempt()
    if attempt is not None and attempt.began:
        yield AttemptRow(
            task=task.name,
            attempt=attempt.number,
            gpus=indices(attempt.gpus, index_of),
            start=round(attempt.wall, 3),
            run=deck.run.number,
            nodes=attempt.nodes,
        )


_Box = tuple[str, int, str]
"""Group, round, entry."""
_Item = TypeVar("_Item")
_STATES: dict[GateState, BarrierState] = {
    GateState.OPEN: "open", GateState.WAIT: "waits", GateState.SHUT: "shut",
}  # fmt: skip


class Graphs:
    """Of one deck: edges are worked out once for a task file, counts and barriers each time. On the loop's thread."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._gates: list[Gate] | None = None
        self._edges: dict[tuple[_Box, _Box, EdgeKind], None] = {}
        self._barriers: list[Gate] = []

    async def graph(self, boot_s: float) -> Graph:
        """As it is now; *boot_s* is CLOCK_BOOTTIME. The deck may get another file while this is worked out: then it is
        begun anew."""
        while True:
            gates = self._deck.gates
            if self._gates is not gates:
                await self._learn(gates)
            counts = await self._count()
            if self._deck.gates is gates:
                return self._told(counts, boot_s)

    async def _learn(self, gates: list[Gate]) -> None:
        edges: dict[tuple[_Box, _Box, EdgeKind], None] = {}
        barriers: list[Gate] = []
        tasks, looked = self._deck.tasks, 0
        for gate in gates:
            looked += 1 + len(gate.members) + len(gate.dependents)
            if gate.kind == "needs" or gate.kind == "after":
                behind = dict.fromkeys(_box(tasks[index]) for index in gate.dependents)
                before = dict.fromkeys(_box(tasks[index]) for index in gate.members) if behind else {}
                edges.update(dict.fromkeys((one, other, gate.kind) for one in before for other in behind))
            elif gate.dependents:
                barriers.append(gate)
            if looked >= AT_ONCE:
                looked = 0
                await asyncio.sleep(0)
        self._gates, self._edges, self._barriers = gates, edges, barriers

    async def _count(self) -> dict[_Box, Counter[str]]:
        counts: dict[_Box, Counter[str]] = {}
        async for task in in_turns(self._deck.tasks):
            if task.selected:
                counts.setdefault(_box(task), Counter())[NAMES[type(task.phase)]] += 1
        return counts

    def _told(self, counts: dict[_Box, Counter[str]], boot_s: float) -> Graph:
        places = {box: place for place, box in enumerate(counts)}
        boxes = [
            GraphBox(entry=entry, group=group, round=number, total=found.total(), counts=dict(found))
            for (group, number, entry), found in counts.items()
        ]
        edges = [
            GraphEdge(before=places[before], behind=places[behind], kind=kind)
            for before, behind, kind in self._edges
            if before in places and behind in places
        ]
        explainer = Explainer(self._deck, boot_s)
        return Graph(boxes=boxes, edges=edges, barriers=[self._barrier(gate, explainer) for gate in self._barriers])

    def _barrier(self, gate: Gate, explainer: Explainer) -> GraphBarrier:
        spec = self._deck.tasks[gate.dependents[0]].spec
        closed = None if gate.state is GateState.OPEN else explainer.gate(gate)
        return GraphBarrier(
            group=spec.group,
            round=spec.round,
            barrier="succeeded" if gate.kind == "round" else "ended",
            state=_STATES[gate.state],
            why="" if closed is None else closed.text,
            tasks=() if closed is None else closed.tasks,
        )


def _box(task: Task) -> _Box:
    return task.spec.group, task.spec.round, task.spec.entry


async def in_turns(items: Sequence[_Item], at_once: int = AT_ONCE) -> AsyncIterator[_Item]:
    """With a turn of the loop for others after each portion."""
    for start in range(0, len(items), at_once):
        for item in items[start : start + at_once]:
            yield item
        await asyncio.sleep(0)
