"""What an engine tells of the made-up deck for the pages over it."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudeck.engine.protocol.pages import (
    AttemptRow,
    Failure,
    Failures,
    Graph,
    GraphBarrier,
    GraphBox,
    GraphEdge,
    TimelinePage,
)  # fmt: skip
from tests.fakes.snapshot_deck import NEXT_CLOSED, OOM, VALUE_ERROR
from tests.fakes.snapshot_gpus import GANG
from tests.fakes.snapshot_rig import NOW_S
from tests.fakes.snapshot_tasks import paths


def builtins(message: Any) -> Any:
    """As it comes over the wire."""
    return msgspec.to_builtins(message)


# -- errors -----------------------------------------------------------------------------------------------------------


def failure(task: str, reason: str, kind: str, ago_s: float, gpu: int, number: int = 1, **more: Any) -> Failure:
    files = paths(task, number)
    return Failure(
        task=task, attempt=number, kind=kind, reason=reason, gpus=(gpu,), ended=NOW_S - ago_s, duration_s=754.0,
        log=files["log"], err=files["err"], **more,
    )  # fmt: skip


HINT = "a smaller batch, or on_oom = [{ vars = { bs = 16 } }] in the task file"
FAILURES = Failures(
    total=9,
    failures=[
        failure("train-sym-0.5", OOM, "oom", 5000, 3, 3, hint=HINT),
        failure("train-big-1", OOM.replace("2.50", "1.00"), "oom", 6001, 1, hint=HINT),
        failure("train-big-4", OOM.replace("2.50", "4.00"), "oom", 6004, 4, hint=HINT),
        failure("train-sym-0.625", VALUE_ERROR, "exit", 4000, 3, exit_code=1),
        failure("probe-1", "timeout after 3 h", "timeout", 40_000, 1),
        failure("probe-2", "timeout after 3 h", "timeout", 50_000, 2),
        failure("gather", "missing output: out/summary.md", "missing output", 90_000, 0),
        failure("lost-1", "lost: the host was restarted", "lost", 300_000, 6),
        failure("訓練-1", "exit 1: FileNotFoundError: '/data/訓練/[red]x[/].pt'", "exit", 100, 0, exit_code=1),
    ],
)  # fmt: skip


# -- timeline ---------------------------------------------------------------------------------------------------------


def ran(task: str, gpus: tuple[int, ...], from_s: float, for_s: float | None, kind: str = "ok", number: int = 1):
    """From so many seconds ago on."""
    start = NOW_S - from_s
    end = None if for_s is None else start + for_s
    return AttemptRow(task=task, attempt=number, gpus=gpus, start=start, end=end, kind=kind if end else "", run=3)


ATTEMPTS = TimelinePage(
    now=NOW_S,
    attempts=[
        ran("prepare", (), 16_000, 900),
        ran("train-sym-0.125", (0,), 15_000, 5025),
        ran("train-sym-0.25", (1,), 15_000, 4980),
        ran("train-sym-0.375", (2,), 15_000, 4710),
        ran("train-sym-0.5", (3,), 15_000, 1805, "oom"),
        ran("train-sym-0.5", (3,), 12_900, 3600, "timeout", 2),
        ran("train-sym-0.5", (3,), 9_200, 754, "oom", 3),
        *(ran(f"probe-{at}", (2,), 9000 - 100 * at, 40, "exit" if at % 4 == 0 else "ok") for at in range(20)),
        ran("train-asym-0.25", (1,), 9600, 8000, "timeout"),
        ran("train-asym-0.25", (1,), 1210, None, "", 2),
        ran("train-asym-0.125", (0,), 3725, None),
        ran("train-asym-0.375", (2,), 65, None),
        ran("probe-lr", (2,), 4000, 900, "cancelled"),
        ran("probe-wd", (2,), 2500, 700, "lost"),
        ran(GANG, (4, 5, 6, 7), 7322, None),
        ran("train-both-0.25", (3,), 3605, None),
        ran("train-both-0.375", (3,), 3600, None),
    ],
)


# -- graph ------------------------------------------------------------------------------------------------------------


def box(entry: str, round_: int, group: str = "", **counts: int) -> GraphBox:
    return GraphBox(entry=entry, group=group, round=round_, total=sum(counts.values()), counts=counts)


GRAPH = Graph(
    boxes=[
        box("prepare", 0, cached=1),
        box("train-{noise}-{rate}", 0, succeeded=3, failed=2, running=3, queued=1),
        box("finetune-vit-large-patch16-224-{dataset}", 0, running=1),
        box("eval", 1, blocked=1, waiting=1),
        box("distill-ddp", 0, queued=1),
        box("gather", 2, waiting=1),
        box("paper", 0, "docs", backoff=1, cancelled=1),
    ],
    edges=[
        GraphEdge(before=0, behind=1, kind="needs"),
        GraphEdge(before=0, behind=2, kind="needs"),
        GraphEdge(before=1, behind=4, kind="needs"),
        GraphEdge(before=3, behind=5, kind="after"),
        GraphEdge(before=1, behind=5, kind="needs"),
    ],
    barriers=[
        GraphBarrier(round=1, state="shut", why=NEXT_CLOSED, tasks=("train-sym-0.5", "train-sym-0.625", "eval-sym")),
        GraphBarrier(round=2, barrier="ended", state="waits", why="waits for round 1: eval-asym", tasks=("eval-asym",)),
    ],
)
PAGES = {"errors": builtins(FAILURES), "timeline": builtins(ATTEMPTS), "graph": builtins(GRAPH)}
"""Answers, as they come over the wire."""
