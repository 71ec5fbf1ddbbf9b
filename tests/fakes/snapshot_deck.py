"""A deck in the middle of its work, with a task in every state, as its engine would tell of it."""

from __future__ import annotations

from typing import Any

from gpudeck.engine.protocol.messages import Counts
from gpudeck.engine.protocol.wire import DeckHead, State, TaskRow
from tests.fakes.snapshot_rig import NOW_S


def row(index: int, name: str, state: State = "queued", **more: Any) -> TaskRow:
    values: dict[str, Any] = {"entry": "train-{noise}-{rate}", "needs_gpus": 1, **more}
    return TaskRow(index=index, name=name, state=state, **values)


def running(index: int, name: str, for_s: float, gpu: int, state: State = "running", **more: Any) -> TaskRow:
    values: dict[str, Any] = {"attempt": 1, "pid": 20_000 + index, "gpus": (gpu,), **more}
    return row(index, name, state, started=NOW_S - for_s, **values)


def ended(index: int, name: str, state: State, took_s: float, ago_s: float, gpu: int, **more: Any) -> TaskRow:
    values: dict[str, Any] = {
        "attempt": 1, "gpus": (gpu,), "started": NOW_S - ago_s - took_s, "ended": NOW_S - ago_s, "duration_s": took_s,
        "exit_code": 0, "kind": "ok", **more,
    }  # fmt: skip
    return row(index, name, state, **values)


OOM = "out of memory (CUDA): tried to allocate 2.50 GiB"
VALUE_ERROR = "exit 1: ValueError: rate must be below 0.5, got 0.625"
NEXT_CLOSED = "round 1 closed by 2 failed and 1 blocked: train-sym-0.5, train-sym-0.625, eval-sym"

ROWS: tuple[TaskRow, ...] = (
    row(0, "prepare", "cached", entry="prepare", needs_gpus=0),
    ended(1, "train-sym-0.125", "succeeded", 5025, 9000, 0, metrics={"acc": 0.9132}),
    ended(2, "train-sym-0.25", "succeeded", 4980, 8000, 1, metrics={"acc": 0.8745}, changed=True),
    ended(3, "train-sym-0.375", "succeeded", 4710, 7400, 2, metrics={"acc": 0.8312}, stale=True),
    ended(4, "train-sym-0.5", "failed", 754, 5000, 3, reason=OOM, kind="oom", exit_code=1, attempt=3, retries=2,
          retries_used=2),
    ended(5, "train-sym-0.625", "failed", 12, 4000, 3, reason=VALUE_ERROR, kind="exit", exit_code=1, held=True),
    running(6, "train-asym-0.125", 3725, 0, progress=0.62, eta_s=2280, metrics={"loss": 0.4213, "acc": 0.83}),
    running(7, "train-asym-0.25", 1210, 1, attempt=2, retries=2, retries_used=1, progress=0.07, eta_s=16_000,
            metrics={"loss": 1.937}, reason="timeout after 3 h", kind="timeout"),
    running(8, "train-asym-0.375", 65, 2, expected_s=4800),
    running(9, "finetune-vit-large-patch16-224-caltech101-asym-0.5-seed3", 7322, 4, gpus=(4, 5, 6, 7), needs_gpus=4,
            progress=0.985, eta_s=110, metrics={"val/accuracy": 0.87125}),
    running(10, "train-both-0.125", 4, 3, "starting"),
    running(11, "train-both-0.25", 3605, 3, "stopping", progress=0.4),
    running(12, "train-both-0.375", 3600, 3, "closing", gone=True),
    ended(13, "train-both-0.5", "backoff", 31, 20, 2, reason="exit 137 (killed, perhaps by the kernel: out of memory)",
          kind="signal", retry_at=NOW_S + 47, retries=3, retries_used=1, exit_code=137),
    row(14, "train-both-0.625", priority=5),
    row(15, "distill-ddp", needs_gpus=4, held=True),
    row(16, "eval-asym", "waiting", entry="eval", round=1),
    row(17, "eval-sym", "blocked", entry="eval", round=1, reason="needs train-sym-0.5, which failed", kind="blocked"),
    ended(18, "probe-lr", "cancelled", 90, 600, 2, kind="cancelled", reason="cancelled by ada", exit_code=143),
    ended(19, "probe-wd", "unknown", 300, 1000, 1, kind="", exit_code=None,
          reason="the engine cannot prove what became of it: pid 20019 may live"),
    row(20, "gather", "waiting", entry="gather", needs_gpus=0, round=2, left_out=True),
    row(21, "訓練-資料", "queued", entry="資料", params={"α": "0.5"}, tags=("smoke",)),
)  # fmt: skip


def counts_of(rows: tuple[TaskRow, ...]) -> Counts:
    found: dict[str, int] = {}
    for each in rows:
        name = "running" if each.state in ("starting", "stopping", "closing") else each.state
        found[name] = found.get(name, 0) + 1
    return Counts(total=len(rows), **found)


def used_slots(rows: tuple[TaskRow, ...]) -> int:
    return sum(len(each.gpus) for each in rows if each.state in ("starting", "running", "stopping", "closing"))


def head(rows: tuple[TaskRow, ...] = ROWS, **more: Any) -> DeckHead:
    """The logs are nowhere, so that the box's own disk is not read."""
    values: dict[str, Any] = {
        "deck": "caltech101-noise", "file": "/home/ada/noise/tasks.toml", "log_dir": "", "run": 3, "ended": False,
        "counts": counts_of(rows), "slots": 10, "used_slots": used_slots(rows), "started": NOW_S - 16_000,
        "eta_s": 19_800.0,
        "held": sum(each.held for each in rows), "changed": sum(each.changed for each in rows),
        "stale": sum(each.stale for each in rows),
    }  # fmt: skip
    return DeckHead(**{**values, **more})
