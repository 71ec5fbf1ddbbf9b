"""Which attempt was on which GPU when: every one that the deck knows of, in portions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from ..core.deck import Deck, Task
from ..core.phases import Ended
from ..protocol.pages import AttemptRow, TimelinePage

AT_ONCE = 500
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
    while place < total and len(found) < AT_ONCE:
        end = min(place + AT_ONCE, total)
        while place < end and len(found) < AT_ONCE:
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
                gpus=_indices(ended.gpus, index_of),
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
            gpus=_indices(attempt.gpus, index_of),
            start=round(attempt.wall, 3),
            run=deck.run.number,
            nodes=attempt.nodes,
        )


def _indices(uuids: tuple[str, ...], index_of: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(index_of[uuid] for uuid in uuids if uuid in index_of)
