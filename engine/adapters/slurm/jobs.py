"""Attempts as jobs of a cluster: what is known of each, kept in one place, and how long the engine waits for what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...ports import StartOrder
from .jobfiles import Ended
from .parse import AccountedJob, QueuedJob

Stage = Literal["queued", "sending", "doubt", "waiting", "running", "gone"]
"""queued: no sbatch yet; sending: in one; doubt: one may have submitted it; waiting: submitted; running: its wrapper
has begun; gone: its end was told."""


@dataclass(eq=False, slots=True)
class Stop:
    """How an attempt was asked to end. Times: CLOCK_BOOTTIME."""

    signal: int
    kill_at: float
    cancelled: bool = False
    """Slurm was asked too."""


@dataclass(eq=False, slots=True)
class Job:
    """An attempt. Times: CLOCK_BOOTTIME."""

    token: str
    order: StartOrder | None = None
    """None: an earlier engine's."""
    stage: Stage = "queued"
    id: str = ""
    """As Slurm counts: "1234", "1234_7"; empty: not told yet."""
    renumbered: bool = False
    """The controller has lost its state, and given the number to another job."""
    since: float = 0.0
    """Of the stage."""
    state: str = ""
    """Slurm's word for where it is, as last seen; empty: never seen."""
    reason: str = ""
    """Slurm's, next to the state."""
    told_why: str = ""
    told_begins: float | None = None
    nodes: str = ""
    element: str = ""
    """In an array: "BATCH_7", the batch's token and the index."""
    absent: tuple[float, float] | None = None
    """The first and the last of the looks at the queue, one after the other, that did not show it."""
    array_stays: bool = False
    """The last of these showed others of its array."""
    shown_gone: bool = False
    """The controller has said so, too."""
    shown_at: float = 0.0
    """When the controller last showed it though the queue did not."""
    refused_at: float | None = None
    """When Slurm last would not take it for now."""
    claimed: bool = False
    """A job of it has taken its claim."""
    over_since: float | None = None
    """When Slurm was first seen saying that it is over."""
    end: Ended | None = None
    """As its wrapper wrote it, where Slurm's word on it is waited for."""
    end_since: float = 0.0
    beat: tuple[float, float] | None = None
    """When its heartbeat was last written, as the file says, and since when that has been so."""
    stop: Stop | None = None
    killed: bool = False
    """What may be left of it was told to end."""
    busy: bool = False
    """Something is being found out about it."""
    looked_up: bool = False
    """The accounting was asked."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of one that is to be submitted, in the queue."""

    asks: tuple[str, ...]
    """For what; attempts of which this is equal may share an array. Empty: it goes alone."""
    few: int
    """Fewer than so many share none."""
    not_before: float
    """By then those alike have joined. CLOCK_BOOTTIME."""


@dataclass(eq=False, slots=True)
class Jobs:
    """All that have not ended, by token and by job id."""

    now: Callable[[], float]
    queue: dict[Job, Place] = field(default_factory=dict[Job, Place])
    """Those to be submitted, in order."""
    _by_token: dict[str, Job] = field(default_factory=dict[str, Job])
    _by_id: dict[str, Job] = field(default_factory=dict[str, Job])
    _by_element: dict[str, Job] = field(default_factory=dict[str, Job])

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._by_token.values())

    def add(self, job: Job) -> Job:
        job.since = self.now()
        self._by_token[job.token] = job
        if job.id:
            self._by_id[job.id] = job
        return self.put(job, job.element)

    def put(self, job: Job, element: str) -> Job:
        """Make it this element of an array; of none with ""."""
        self._by_element.pop(job.element, None)
        job.element = element
        if element:
            self._by_element[element] = job
        return job

    def get(self, token: str) -> Job | None:
        return self._by_token.get(token)

    def of(self, row: QueuedJob) -> Job | None:
        """The one that a line of the queue is about. A number alone proves nothing: a controller that lost its state
        gives them out again."""
        if row.token:
            return self._by_token.get(row.token)
        if row.batch:
            index = row.id.partition("_")[2]
            return self._by_element.get(f"{row.batch}_{index}") or self._numbered(row.id)
        return None

    def _numbered(self, job_id: str) -> Job | None:
        """An earlier engine's, of an array that nobody remembers."""
        job = self._by_id.get(job_id)
        return None if job is None or job.element else job

    def name(self, job: Job, job_id: str) -> None:
        if self._by_id.get(job.id) is job:
            del self._by_id[job.id]
        job.id, job.renumbered = job_id, False
        self._by_id[job_id] = job

    def move(self, job: Job, stage: Stage) -> None:
        job.stage, job.since = stage, self.now()
        if stage != "queued":
            self.queue.pop(job, None)

    def remove(self, job: Job) -> None:
        self.move(job, "gone")
        self._by_token.pop(job.token, None)
        self._by_element.pop(job.element, None)
        if self._by_id.get(job.id) is job:
            del self._by_id[job.id]


def is_of(row: AccountedJob, job: Job) -> bool:
    """Whether a line of the accounting, under its number, is about it. By its comment, or else, as most clusters keep
    none, by its name, which ends in the token's beginning, or that of the array's."""
    batch = job.element.partition("_")[0]
    if row.token:
        return row.token == job.token
    if row.batch:
        return row.batch == batch if batch else "_" in job.id
    if not batch and "_" in job.id:  # an earlier engine's, whose array nobody remembers
        return True
    return row.name.endswith(f"-{(batch or job.token)[:8]}")


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds."""

    settle_s: float = 12.0
    """From Slurm's word that a job is over to believing it without the word of its wrapper: two heartbeats, for what
    beats meanwhile lives."""
    stale_s: float = 90.0
    """A heartbeat that has not been written for so long is nobody's: a wrapper that cannot see its folder ends its
    tree after 45 s, and file servers' clients may show what is a minute old."""
    vanished_s: float = 10.0
    """Between the looks that agree on a job's not being in the queue."""
    word_s: float = 15.0
    """What Slurm's word is waited for at most, where a job was ended by somebody else."""
    beyond_grace_s: float = 10.0
    """What a wrapper gets beyond the grace before Slurm is asked to end the job."""
    message_timeout_s: float = 10.0
    """Slurm's MessageTimeout where it cannot be asked: how long a request of a call may be under way."""
    judge_s: float = 1.0
    """Between judgements of jobs that something is wrong with."""
    back_off_s: float = 5.0
    """After Slurm takes no job for now; it doubles."""
    longest_back_off_s: float = 60.0
