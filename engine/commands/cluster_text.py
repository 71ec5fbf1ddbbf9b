"""The cluster that a Slurm deck runs on, in lines."""

from __future__ import annotations

from collections.abc import Iterator

from ..headless.painted import Line
from ..protocol.wire import Cluster, DeckHead
from ..text import columns_of, field_text
from .look import Look
from .screen import Screen


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
