"""A Slurm deck in the middle of its work, and the cluster that it runs on."""

from __future__ import annotations

from typing import Any

from gpudeck.engine.protocol.messages import Counts
from gpudeck.engine.protocol.wire import Cluster, ClusterRow, DeckHead, State, TaskRow
from tests.fakes.snapshot_deck import head, row
from tests.fakes.snapshot_rig import NOW_S
from tests.fakes.snapshot_tasks import attempt, lasting, task


def on_node(index: int, name: str, for_s: float, *nodes: str, **more: Any) -> TaskRow:
    values: dict[str, Any] = {"attempt": 1, "job": str(48_200 + index), "nodes": nodes, **more}
    return row(index, name, "running", started=NOW_S - for_s, **values)


def pending(index: int, name: str, why: str = "", **more: Any) -> TaskRow:
    values: dict[str, Any] = {"attempt": 1, "job": f"48211_{index}", "pending": why, **more}
    return row(index, name, "starting", started=NOW_S - 600, **values)


def over(index: int, name: str, state: State, took_s: float, node: str, **more: Any) -> TaskRow:
    values: dict[str, Any] = {
        "attempt": 1, "job": str(48_100 + index), "nodes": (node,), "started": NOW_S - 7000 - took_s,
        "ended": NOW_S - 7000, "duration_s": took_s, "exit_code": 0, "kind": "ok", **more,
    }  # fmt: skip
    return row(index, name, state, **values)


ROWS: tuple[TaskRow, ...] = (
    over(0, "prepare", "succeeded", 61, "cpu07", entry="prepare", needs_gpus=0),
    over(1, "train-sym-0.125", "succeeded", 5025, "gpu03", metrics={"acc": 0.9132}),
    over(2, "train-sym-0.25", "failed", 31, "gpu11", reason="exit 1: ValueError: bad rate", kind="exit", exit_code=1),
    on_node(3, "train-sym-0.375", 3725, "gpu03", progress=0.62, eta_s=2280, metrics={"loss": 0.4213}),
    on_node(4, "finetune-vit-large-ddp", 7322, "gpu04", "gpu05", "gpu06", "gpu12", attempt=2, needs_gpus=8,
            progress=0.985, eta_s=110, metrics={"val/accuracy": 0.87125}),
    on_node(5, "train-asym-0.125", 65, "gpu11", attempt=2, retries=2, retries_used=1, reason="a node of it failed",
            kind="node_fail", expected_s=4800),
    pending(6, "train-asym-0.25", "begins ~14:05, Priority"),
    pending(7, "train-asym-0.375", "Resources"),
    pending(8, "train-asym-0.5", "QOSMaxGRESPerUser"),
    row(9, "train-asym-0.625", "starting", attempt=1, started=NOW_S - 1),
    row(10, "train-both-0.125"),
    row(11, "distill-ddp", needs_gpus=4, held=True),
    row(12, "eval-asym", "waiting", entry="eval", round=1),
)  # fmt: skip

GPU = ClusterRow(
    partition="gpu", default=True, state="up", nodes_idle=1, nodes_up=11, nodes_total=12, gpus_free=5, gpus_total=96,
    gpu_types=("a100 1/64", "v100 4/32"), cpus_free=212, cpus_total=1536, running=3, pending=3,
)  # fmt: skip
CLUSTER = Cluster(
    partitions=(
        GPU,
        ClusterRow(partition="cpu", state="up", nodes_idle=14, nodes_up=40, nodes_total=40, gpus_free=0, gpus_total=0,
                   cpus_free=1890, cpus_total=5120),
        ClusterRow(partition="interactive-debug", state="drain", nodes_idle=0, nodes_up=0, nodes_total=2, gpus_free=0,
                   gpus_total=4, cpus_free=0, cpus_total=64),
    ),
    running=3, pending=4, at=NOW_S - 4,
)  # fmt: skip


def slurm_head(rows: tuple[TaskRow, ...] = ROWS, **more: Any) -> DeckHead:
    waiting = Counts(
        total=len(rows), running=3, pending=4, queued=2, waiting=1, succeeded=2, failed=1
    )  # fmt: skip
    values: dict[str, Any] = {"backend": "slurm", "slots": 200, "used_slots": 7, "counts": waiting, **more}
    return head(rows, **values)


RUNNING = task(
    "finetune-vit-large-ddp", "running", entry="finetune", gpus=2, params={},
    running=lasting("finetune-vit-large-ddp", 2, 7322, (), pid=0, job="48204",
                    nodes=("gpu04", "gpu05", "gpu06", "gpu12"), script="logs/finetune-vit-large-ddp/attempt-2.sh"),
    attempts=(
        attempt("finetune-vit-large-ddp", 1, "a node of it failed: gpu06", "node_fail", 1805, (), exit_code=None,
                job="48104", nodes=("gpu06", "gpu07"), script="logs/finetune-vit-large-ddp/attempt-1.sh"),
    ),
)  # fmt: skip
PENDING = task(
    "train-asym-0.25", "starting", params={"noise": "asym"}, waits_for=("Slurm: begins ~14:05, Priority",),
    running=lasting("train-asym-0.25", 1, 600, (), pid=0, job="48211_6", pending=True,
                    pending_why="begins ~14:05, Priority", script="logs/train-asym-0.25/attempt-1.sh"),
)  # fmt: skip
