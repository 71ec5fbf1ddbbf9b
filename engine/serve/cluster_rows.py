"""What people read of a cluster: why it has not begun an attempt, and how its partitions stand."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from ..core.explain import waits_in_words
from ..core.phases import Attempt
from ..protocol.wire import Cluster, ClusterRow

if TYPE_CHECKING:
    from ..adapters.slurm.cluster import ClusterView, Partition


_FAR_S = 300 * 86_400.0
"""Of a job that waits for one without a time limit Slurm says that it begins in a year: that is no expectation."""


def pending_in_words(attempt: Attempt | None) -> str:
    """ "Priority, begins about 14:05"; "" for what the cluster has begun, and where it gives no reason."""
    return "" if attempt is None or attempt.began or not attempt.job else waits_in_words(attempt, hour)


def hour(wall: float) -> str:
    """A moment as people say it: "14:05", of another day "Thu 26 Nov 14:05"; "" for one in the far future."""
    if wall - time.time() > _FAR_S:
        return ""
    then = time.localtime(wall)
    same_day = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", then)


@lru_cache(1)  # it is asked for in each turn of the loop, and is another one every ten seconds
def cluster_row(view: ClusterView) -> Cluster:
    """The cluster as clients are told of it."""
    return Cluster(
        partitions=tuple(map(_row, view.partitions)),
        running=view.running,
        pending=view.pending,
        at=round(view.at, 3),
        problem=view.problem,
    )


def _row(partition: Partition) -> ClusterRow:
    typed = [each for each in partition.gpus if each.type]
    return ClusterRow(
        partition=partition.name,
        default=partition.default,
        state=partition.state,
        nodes_idle=partition.nodes_idle,
        nodes_up=partition.nodes_up,
        nodes_total=partition.nodes_total,
        gpus_free=partition.gpus_free,
        gpus_total=partition.gpus_total,
        gpu_types=tuple(f"{each.type} {each.free}/{each.total}" for each in typed),
        cpus_free=partition.cpus_free,
        cpus_total=partition.cpus_total,
        running=partition.running,
        pending=partition.pending,
    )
