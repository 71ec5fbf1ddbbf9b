"""Failed tasks, the newest first: why, when, where, and in which files more stands. No file is read here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Annotated

import msgspec

from ..core.deck import Deck, Task
from ..core.phases import Failed
from ..logs.described import describe
from ..logs.failure import hint_of
from ..logs.files import AttemptPaths
from ..protocol.pages import Failure, Failures

AT_ONCE = 1000
"""Tasks looked at in one turn of the loop."""
MOST = 500
_TOLD_AT_ONCE = 100

Paths = Callable[[str, int], AttemptPaths]
"""Where the files of an attempt of a task are."""


class FailuresArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = MOST


async def failures(deck: Deck, args: FailuresArgs, paths: Paths, index_of: Mapping[str, int]) -> Failures:
    """*index_of*: GPUs by UUID."""
    total = 0
    newest: list[Task] = []
    for start in range(0, len(deck.tasks), AT_ONCE):
        failed = [task for task in deck.tasks[start : start + AT_ONCE] if isinstance(task.phase, Failed)]
        total += len(failed)
        newest = nlargest(args.limit, (*newest, *failed), key=_ended)
        await asyncio.sleep(0)
    told: list[Failure] = []
    for start in range(0, len(newest), _TOLD_AT_ONCE):
        told += (failure_of(task, paths, index_of) for task in newest[start : start + _TOLD_AT_ONCE])
        await asyncio.sleep(0)
    return Failures(total=total, failures=told)


def _ended(task: Task) -> float:
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
        gpus=() if last is None else tuple(index_of[uuid] for uuid in last.gpus if uuid in index_of),
        nodes=() if last is None else last.nodes,
        ended=0.0 if last is None else round(last.wall, 3),
        duration_s=0.0 if last is None else round(last.duration_s, 3),
        log="" if files is None else files.out,
        err="" if files is None else files.err,
    )
