"""What people read of a cluster: why it has not begun an attempt, and how its partitions stand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.deck import Deck
from ..core.explain import waits_in_words
from ..core.phases import Attempt, Starting, Unknown
from ..protocol.wire import Cluster, ClusterRow
from ..report.numbers import counts_of

if TYPE_CHECKING:
    from ..adapters.slurm.cluster import ClusterView, Partition, UserJob


_FAR_S = 300 * 86_400.0
"""Of a job that waits for one without a time limit Slurm says that it begins in a year: that is no expectation."""


def pending_in_words(attempt: Attempt | None) -> str:
    """ "begins ~14:05, Priority"; "" for what the cluster has begun, and where it gives no reason."""
    return "" if attempt is None or attempt.began else waits_in_words(attempt, hour)


def hour(wall: float) -> str:
    """A moment as people say it: "14:05", of another day "26 Nov 14:05"; "" for one in the far future."""
    if wall - time.time() > _FAR_S:
        return ""
    then = time.localtime(wall)
    same_day = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if same_day else "%-d %b %H:%M", then)


class ClusterRows:
    """A cluster as clients are told of it: nodes as Slurm told of them last; of jobs, this deck's as the deck knows
    them now, and the user's others as Slurm told of them."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._view: ClusterView | None = None
        self._home: Mapping[str, Sequence[str]] = {}
        """Partitions of jobs, by id."""
        self._default: Sequence[str] = ()
        self._others: Sequence[UserJob] = ()
        self._counts = (0, 0)
        self._told = Cluster()

    def of(self, view: ClusterView) -> Cluster:
        """Costs next to nothing while *view* is the one of before and as many of the deck's jobs run and wait."""
        counts = counts_of(self._deck)
        now = (counts.running, counts.pending)
        if view is not self._view:
            self._take(view)
        elif now == self._counts:
            return self._told
        self._counts = now
        running, pending = Counter[str](), Counter[str]()
        for waits, partitions in self._own():
            (pending if waits else running).update(partitions)
        for job in self._others:
            (pending if job.waits else running).update(job.partitions)
        waiting = sum(job.waits for job in self._others)
        self._told = Cluster(
            partitions=tuple([_row(each, running[each.name], pending[each.name]) for each in view.partitions]),
            running=counts.running + len(self._others) - waiting,
            pending=counts.pending + waiting,
            at=round(view.at, 3),
            problem=view.problem,
        )
        return self._told

    def _take(self, view: ClusterView) -> None:
        attempts = (each for task in self._deck.tasks for each in (task.attempt(), *task.ended[-1:]))
        own = {each.job for each in attempts if each is not None}
        self._view = view
        self._home = {job.id: job.partitions for job in view.jobs}
        self._default = [each.name for each in view.partitions if each.default]
        self._others = [job for job in view.jobs if job.id not in own]

    def _own(self) -> Iterator[tuple[bool, Sequence[str]]]:
        """Of each of the deck's jobs whether it waits, and in which partitions it is, or asks to be."""
        for task in self._deck.active.values():
            attempt = task.attempt()
            if attempt is not None and not isinstance(task.phase, Unknown):
                asked = str(dict(task.spec.extras.slurm).get("partition", ""))
                partitions = self._home.get(attempt.job) or (asked.split(",") if asked else self._default)
                yield isinstance(task.phase, Starting), partitions


def _row(partition: Partition, running: int, pending: int) -> ClusterRow:
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
        running=running,
        pending=pending,
    )
