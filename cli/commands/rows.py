"""Rows of tasks, GPUs and clusters in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, cast

import msgspec

from ...engine.headless.painted import Line, Tone
from ...engine.protocol.counts import Counts
from ...engine.protocol.states import ACTIVE, YET_TO_START, given_text, is_pending, reason_text, shown_state
from ...engine.protocol.wire import Cluster, DeckHead, GpuRow, TaskRow
from ...engine.protocol.words import job_text, nodes_text, silent_text, stands
from ...engine.text import columns_of, duration, field_text, measured, mib_text, ranges
from .look import Look
from .screen import Screen

_TONES: dict[str, Tone] = {
    "succeeded": "good", "cached": "dim", "failed": "bad", "unknown": "bad", "blocked": "warn", "cancelled": "warn",
    "pruned": "warn", "backoff": "warn", "running": "bold", "starting": "bold", "stopping": "warn", "closing": "bold",
}  # fmt: skip


def tone(row: TaskRow) -> Tone:
    return "plain" if is_pending(row) else _TONES.get(row.state, "plain")


def state_text(row: TaskRow) -> str:
    """ "queued held", "succeeded changed stale"."""
    flags = ("held", "changed", "stale", "gone")
    said = [name for name in flags if getattr(row, name)]
    return " ".join([shown_state(row), *said, *(["left out"] if row.left_out else [])])


def is_text(row: TaskRow) -> str:
    """ "is queued", "waits for its next attempt"."""
    return stands(shown_state(row))


def time_text(row: TaskRow) -> str:
    """How long its attempt lasts or lasted; "-" where it has none, or waits for another, or in the cluster's queue."""
    if row.state in YET_TO_START or is_pending(row):
        return "-"
    if row.started is not None:
        return duration(max(0.0, time.time() - row.started))
    return "-" if row.duration_s is None else duration(row.duration_s)


def gpu_text(row: TaskRow) -> str:
    if row.state in YET_TO_START:
        return "-"
    if row.gpus:
        return ranges(row.gpus)
    ran = row.attempt and not (row.state == "failed" and row.kind == "spawn error")
    return "cpu" if ran and (row.on_cpu or not row.needs_gpus) else "-"


def node_text(row: TaskRow) -> str:
    """ "node[1-2]"; "-" where the cluster has not begun it."""
    return nodes_text(row.nodes) or "-"


def place_text(row: TaskRow) -> str:
    """ "gpu 0-3", "cpu", "job 1234 on node1"."""
    if row.job:
        return job_text(row.job, row.nodes)
    return f"gpu {gpu_text(row)}" if row.gpus else gpu_text(row)


def note_text(row: TaskRow) -> str:
    """Why it ended so or is pending, or how far it is, and with which values it goes."""
    return "; ".join(filter(None, (_standing(row), given_text(row))))


def _standing(row: TaskRow) -> str:
    if is_pending(row):
        return "; ".join(filter(None, (row.pending, reason_text(row))))
    if row.state in ACTIVE:
        return stop_text(row) or progress_text(row) or reason_text(row)
    if row.state == "backoff" and row.retry_at is not None:
        return f"again in {duration(row.retry_at - time.time())}: {row.reason}"
    return reason_text(row)


def stop_text(row: TaskRow) -> str:
    """Why it is being stopped, where that is known: another task takes its place. Or why it has not ended yet."""
    return row.reason if row.state == "closing" or (row.state == "stopping" and not row.kind) else ""


def waits_text(row: TaskRow) -> str:
    """Of a task that is starting and whose log is not there yet: "waits: begins ~14:05, Priority"."""
    if not is_pending(row):
        return "is starting: it has no log yet"
    return f"waits: {row.pending or f'job {row.job} has not begun'}"


def hint_line(hint: str) -> Line:
    """Below a failure: what the user may do about it."""
    return Line(f"  hint: {field_text(hint)}", tone="warn")


def progress_text(row: TaskRow) -> str:
    """ "43 %  eta 00:12:00  loss=0.31"; "" where nothing is known."""
    parts = [f"{100 * row.progress:.0f} %"] if row.progress is not None else []
    parts += [f"eta {duration(row.eta_s)}"] if row.eta_s is not None else []
    parts += [f"{name}={measured(row.score(name))}" for name in list(row.metrics)[:3]]
    return "  ".join(parts)


def util_text(gpu: GpuRow) -> str:
    return "-" if gpu.util_percent is None or gpu.stale_since is not None else f"{gpu.util_percent} %"


def memory_text(gpu: GpuRow) -> str:
    if gpu.total_mib is None:
        return "-"
    used = "-" if gpu.used_mib is None or gpu.stale_since is not None else mib_text(gpu.used_mib)
    return f"{used} of {mib_text(gpu.total_mib)}"


def gpu_cells(gpu: GpuRow) -> tuple[str, ...]:
    """Its name, memory, use, tasks, and what is the matter with it."""
    name = f"SIM {gpu.index}" if gpu.simulated else str(gpu.index)
    return name, memory_text(gpu), util_text(gpu), ", ".join(gpu.tasks) or "-", gpu_note(gpu)


def gpu_note(gpu: GpuRow) -> str:
    """What is the matter with a GPU; of one that no longer tells how it is, since when."""
    return gpu.note if gpu.stale_since is None else silent_text(gpu.stale_since)


def plain(value: Any) -> Any:
    """Rows for JSON: all fields, also those that have their default."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Counts):
        return asdict(value)
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in cast("Sequence[Any]", value)]
    return value


def cluster_of(found: Look, head: DeckHead) -> Cluster | None:
    """None: nothing is known of it, or tasks run on this box."""
    return found.cluster() if head.backend == "slurm" else None


def cluster_lines(cluster: Cluster | None, screen: Screen) -> Iterator[Line]:
    """My jobs, then what is free in each partition."""
    if cluster is None:
        return
    mine = f" (my jobs: {cluster.running:,} running, {cluster.pending:,} pending)" if cluster.at else ""
    yield Line(f"cluster{mine}:", tone="bold")
    if cluster.problem:
        yield Line(f"  Slurm does not answer: {field_text(cluster.problem)}", tone="warn")
    cells = [
        (
            f"  {row.partition}{'*' if row.default else ''}",
            row.state,
            _of("nodes up", row.nodes_up, row.nodes_total),
            _of("GPUs free", row.gpus_free, row.gpus_total),
            _of("CPUs free", row.cpus_free, row.cpus_total),
        )
        for row in cluster.partitions
    ]
    yield from (Line(text) for text in columns_of(cells, screen.columns))


def _of(what: str, some: int | None, total: int | None) -> str:
    """ "3/8 GPUs free"."""
    return "-" if some is None or not total else f"{some}/{total} {what}"
