"""Attempts as jobs of a cluster: what the engine has done about each, and what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...core.fate import Fate
from ...core.inputs import Pending
from ...core.spec import StopScope
from ...ports import Known, StartOrder
from .jobfiles import VOID, Began, Ended, Files, Left
from .parse import BATCH_MARK, MARK, AccountedJob, QueuedJob
from .states import accounted, stand

Stage = Literal["queued", "sending", "doubt", "waiting", "running", "gone", "void"]
"""queued: no sbatch yet; sending: in one; doubt: one may have submitted it; waiting: submitted; running: its wrapper
has begun; gone: its end was told; void: so was that of an attempt that will run nothing, and a job of it has still to
leave the queue, or may come into it."""

_SHOWN_S = 60.0
"""So long the controller's word on a job stands against a queue that does not show it."""
_TURNS_UP_S = 600.0
"""So long after it was given up the job of a submission that nobody has seen may come into the queue."""


@dataclass(eq=False, slots=True)
class Stop:
    """How an attempt was asked to end. Times: CLOCK_BOOTTIME."""

    signal: int
    kill_at: float
    scope: StopScope = "group"
    told: bool = False
    """Its wrapper was."""


@dataclass(eq=False, slots=True)
class Seen:
    """What Slurm and its files have said of a job. Times: CLOCK_BOOTTIME."""

    id: str = ""
    """Under which it was seen last, where that is told by what is its own."""
    renumbered: bool = False
    """The controller has lost its state, and given the number to another job."""
    state: str = ""
    """Slurm's word for where it is; empty: never seen."""
    reason: str = ""
    """Slurm's, next to the state."""
    begins: float | None = None
    """When Slurm expects to begin it, by the wall clock."""
    nodes: str = ""
    over_since: float | None = None
    """When Slurm was first seen saying that it is over."""
    listed_at: float = 0.0
    """When a look at the queue that showed it was asked for."""
    absent: tuple[float, float] | None = None
    """The first and the last of the looks at the queue, one after the other, that did not show it."""
    array_stays: bool = False
    """The last of these showed others of its array."""
    accounted: bool = False
    """The accounting was asked, late enough."""
    shown_gone: bool = False
    """The controller has said so, too."""
    shown_at: float = 0.0
    """When the controller last showed it though the queue did not."""
    claim: str | None = None
    """Who has its claim: the id of a job, VOID, or empty for one that has not said so yet; None: nobody, as far as is
    known."""
    began: Began | None = None
    began_at: float = 0.0
    ended: Ended | None = None
    """As its wrapper wrote it."""
    ended_at: float = 0.0
    ended_since: float = 0.0
    """When that was read."""
    says_killed: bool = False
    says_memory: bool = False
    why: str = ""
    """See `Files`."""
    looked_at: float = float("-inf")
    """When the last close look at its files was begun."""
    beat: float | None = None
    """When its heartbeat was last written, as the file says."""
    beat_since: float = 0.0
    """Since when that has been so."""
    goes_on: bool = False
    """It has beaten since it is over."""

    @property
    def claimed(self) -> bool:
        """A job of it has taken its claim."""
        return self.claim is not None and self.claim != VOID


@dataclass(eq=False, slots=True)
class Job:
    """An attempt, and what was done about it. Times: CLOCK_BOOTTIME."""

    token: str
    order: StartOrder | None = None
    """None: an earlier engine's."""
    stage: Stage = "queued"
    id: str = ""
    """As Slurm counts: "1234", "1234_7"; empty: not told yet."""
    element: str = ""
    """In an array: "BATCH_7", the batch's token and the index."""
    since: float = 0.0
    """Of the stage."""
    seen: Seen = field(default_factory=Seen)
    told: Pending | None = None
    """Why it waits, as told last."""
    asked: bool = False
    """Something is being found out about it."""
    stop: Stop | None = None
    killed: bool = False
    """What may be left of it was told to end."""
    cancelled_at: float | None = None
    """When Slurm was last asked to end it; infinite: it is being asked."""
    alike: tuple[str, ...] = ()
    """What it asks Slurm for: those of which this is equal may share an array. Empty: it goes alone."""
    ready_at: float = 0.0
    """By then those alike have joined."""
    refused_at: float | None = None
    """When Slurm last would not take it for now."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The queue at one moment."""

    asked_at: float
    """CLOCK_BOOTTIME: what was submitted before is in it."""
    changed: tuple[QueuedJob, ...]
    """Those that are new, or not as they were in the picture before."""
    ids: frozenset[str]
    """Of all jobs listed."""


@dataclass(eq=False, slots=True)
class Jobs:
    """All that have not ended, or have still to leave the queue, by token and by job id."""

    now: Callable[[], float]
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
        job.id, job.seen.renumbered = job_id, False
        self._by_id[job_id] = job

    def move(self, job: Job, stage: Stage) -> None:
        job.stage, job.since = stage, self.now()
        if stage != "gone":
            return
        self._by_token.pop(job.token, None)
        self._by_element.pop(job.element, None)
        if self._by_id.get(job.id) is job:
            del self._by_id[job.id]


def recovered(known: Known, left: Left) -> tuple[Fate, Job]:
    """What its files prove, and an earlier engine's attempt as a job. "adopted" where they prove no end: Slurm may.
    Nothing here depends on which host, or which boot of it, this engine runs on."""
    job = Job(known.token, id=known.job, stage="waiting", element=left.elements.get(known.token, ""))
    if f"{known.token}.ended" in left.names:  # the wrapper's last act: nothing of it lives, whatever is in it
        return "ended", job
    claim = left.claims.get(known.token, "")
    if f"{known.token}.claim" in left.names:
        job.seen.claim = claim
    if claim == VOID:
        return "never ran", job
    job.id = job.id or claim
    if not job.id:
        job.stage = "doubt"
    return "adopted", job


def expected(job: Job, now: float) -> bool:
    """Whether the queue tells anything of it that matters."""
    if job.stage != "void":
        return job.stage != "gone"
    return job.seen.over_since is None if job.id else now - job.since < _TURNS_UP_S


def see_row(job: Job, row: QueuedJob, now: float) -> bool:
    """A line of the queue is about it. Whether its state is another than before."""
    seen = job.seen
    if not job.id:
        seen.id = row.id
    elif job.id != row.id:
        return False  # of two jobs of one attempt the one that took the claim counts
    moved, seen.state = seen.state != row.state, row.state
    seen.nodes, seen.reason, seen.begins = row.nodes or seen.nodes, row.reason, row.start
    if stand(row.state) == "over":
        _see_over(seen, now)
    else:
        seen.over_since = None
    return moved


def _see_over(seen: Seen, now: float) -> None:
    if seen.over_since is None:
        seen.over_since, seen.beat, seen.goes_on = now, None, False


def see_queue(job: Job, picture: Picture, arrays: Collection[str]) -> None:
    """Whether the queue shows it, where it should. *arrays*: numbers of those of which it shows elements."""
    seen = job.seen
    if job.stage in ("queued", "sending"):
        return
    if seen.over_since is not None or (job.id in picture.ids and not seen.renumbered):
        seen.absent, seen.shown_gone = None, False
        seen.listed_at = picture.asked_at
    elif picture.asked_at > max(job.since, seen.shown_at + _SHOWN_S):
        seen.absent = (seen.absent[0] if seen.absent else picture.asked_at, picture.asked_at)
        seen.array_stays = "_" in job.id and job.id.partition("_")[0] in arrays


def see_accounts(job: Job, rows: Sequence[AccountedJob], now: float, *, late: bool) -> None:
    """What sacct knows under its number, which others may have had. *late*: late enough to be its last word."""
    seen = job.seen
    seen.accounted = late
    mine = [row for row in rows if is_of(row, job)]
    if mine and stand(mine[-1].state) == "over":
        seen.state, seen.nodes = accounted(mine[-1].state), mine[-1].nodes or seen.nodes
        _see_over(seen, now)


def see_shown(job: Job, shown: Literal["there", "gone", "silent"], now: float) -> None:
    """What the controller says of one that the queue does not show."""
    seen = job.seen
    seen.shown_gone = shown == "gone"
    if shown == "there":
        seen.shown_at = now
    if shown != "gone":
        seen.absent, seen.accounted = None, False


def see_claim(job: Job, claim: str) -> None:
    """Who has its claim, see `Seen.claim`."""
    seen = job.seen
    seen.claim = claim
    if claim not in ("", VOID) and not job.id:
        seen.id = claim


def see_files(job: Job, files: Files, *, asked_at: float, now: float, wall: float) -> None:
    """What its files say, of a look that was begun at *asked_at*. *wall*: the time by this machine's clock."""
    seen = job.seen
    if files.began is not None and seen.began is None:
        seen.began, seen.began_at = files.began, _at(files.began.wall, now, wall)
        seen.id, seen.nodes = files.began.job or seen.id, ",".join(files.began.nodes)
    if files.ended is not None and seen.ended is None:
        seen.ended, seen.ended_at, seen.ended_since = files.ended, _at(files.ended.wall, now, wall), now
        seen.says_killed, seen.why = files.says_killed, files.why
    if files.claim is not None and files.claim != VOID:
        see_claim(job, files.claim)
    if files.beat is None:
        return
    seen.looked_at, seen.says_memory = asked_at, files.says_memory
    if seen.beat != files.beat:
        seen.goes_on = seen.beat is not None and files.beat > 0 and seen.over_since is not None
        seen.beat, seen.beat_since = files.beat, now


def _at(node_s: float, now: float, wall: float) -> float:
    """A node's wall time by our clock that never jumps; clocks of two machines need not agree."""
    return now - (max(0.0, wall - node_s) if node_s else 0.0)


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


def comment_of(job: Job) -> str:
    """What jobs of it have in their comment, and others of its number have not."""
    if "_" in job.id:  # an earlier engine's array may be one that nobody remembers
        return BATCH_MARK + job.element.partition("_")[0]
    return MARK + job.token
