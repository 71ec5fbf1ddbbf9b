"""Attempts as jobs of a cluster: what the engine has done about each, and what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ...core.events import Fate
from ...core.inputs import Pending
from ...core.spec import StopScope
from ...ports import Known, StartOrder
from .calls import Queue, Shown
from .jobfiles import VOID, Began, Ended, Files, Left
from .parse import BATCH_MARK, MARK, SlurmJob
from .states import accounted, stand

Stage = Literal["queued", "sending", "doubt", "waiting", "running", "gone", "void"]
"""queued: no sbatch yet; sending: in one; doubt: one may have submitted it; waiting: submitted; running: its wrapper
has begun; gone: its end was told; void: so was that of an attempt that will run nothing, and a job of it has still to
leave the queue, or may come into it."""

_SHOWN_S = 60.0
"""So long the controller's word on a job stands against a queue that does not show it."""
_TURNS_UP_S = 600.0
"""So long after it was given up the job of a submission that nobody has seen may come into the queue."""


@dataclass(slots=True)
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
    row: str = ""
    """Of which job the queue has told what follows."""
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

    @property
    def absent_s(self) -> float:
        """For how long the queue has not shown it; negative: it does."""
        return self.absent[1] - self.absent[0] if self.absent is not None else -1.0

    def over(self, now: float) -> None:
        """Slurm says that it is over."""
        if self.over_since is None:
            self.over_since, self.beat, self.goes_on = now, None, False


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

    @property
    def live(self) -> bool:
        """Slurm may run something of it, or is to."""
        return self.stage not in ("gone", "void")

    @property
    def unclear(self) -> bool:
        """Something is to be found out about it, which the queue may tell."""
        seen = self.seen
        news = seen.over_since is not None or seen.absent is not None or seen.ended is not None
        return self.live and self.stage != "queued" and (news or self.stage == "doubt")

    @property
    def passes_time(self) -> bool:
        """Time alone may bring a next step."""
        return self.unclear or (self.stop is not None and self.live)

    @property
    def comment(self) -> str:
        """What jobs of it have in their comment, and others of its number have not."""
        if "_" in self.id:  # an earlier engine's array may be one that nobody remembers
            return BATCH_MARK + self.element.partition("_")[0]
        return MARK + self.token

    def expected(self, now: float) -> bool:
        """Whether the queue tells anything of it that matters."""
        if self.stage != "void":
            return self.live
        turns_up = not self.id or self.seen.renumbered
        return now - self.since < _TURNS_UP_S if turns_up else self.seen.over_since is None

    def see_row(self, row: SlurmJob, now: float) -> bool:
        """A line of the queue is about it. Whether its state is another than before."""
        seen = self.seen
        over = stand(row.state) == "over"
        if self.id and self.id != row.id:
            return False  # of two jobs of one attempt the one that took the claim counts
        if not self.id and not (over and self.stage == "sending"):  # that may be one which sbatch is just refusing
            seen.id = row.id
        moved, seen.state, seen.row = seen.state != row.state, row.state, row.id
        seen.nodes, seen.reason, seen.begins = row.nodes or seen.nodes, row.reason, row.start
        if over:
            seen.over(now)
        else:
            seen.over_since = None
        return moved

    def see_queue(self, queue: Queue, asked_at: float) -> None:
        """Whether the queue shows it, where it should."""
        seen = self.seen
        if self.stage in ("queued", "sending"):
            return
        if seen.over_since is not None or (self.id in queue.ids and not seen.renumbered):
            seen.absent, seen.shown_gone = None, False
            seen.listed_at = asked_at
        elif asked_at > max(self.since, seen.shown_at + _SHOWN_S):
            seen.absent = (seen.absent[0] if seen.absent else asked_at, asked_at)
            seen.array_stays = "_" in self.id and self.id.partition("_")[0] in queue.arrays

    def see_accounts(self, rows: Iterable[SlurmJob], now: float, *, vanished_s: float) -> None:
        """What sacct knows under its number, which others may have had. It may be some seconds late: so its silence
        counts where the queue has not shown the job for *vanished_s*."""
        seen = self.seen
        seen.accounted = seen.absent_s >= vanished_s
        mine = [row for row in rows if self.is_in(row)]
        if mine and stand(mine[-1].state) == "over":
            seen.state, seen.nodes = accounted(mine[-1].state), mine[-1].nodes or seen.nodes
            seen.over(now)

    def see_shown(self, shown: Shown, now: float) -> None:
        """What the controller says of one that the queue does not show."""
        seen = self.seen
        seen.shown_gone = shown == "gone"
        if shown == "there":
            seen.shown_at = now
        if shown != "gone":
            seen.absent, seen.accounted = None, False

    def see_claim(self, claim: str) -> None:
        """Who has its claim, see `Seen.claim`."""
        self.seen.claim = claim
        if claim not in ("", VOID) and not self.id:
            self.seen.id = claim

    def see_files(self, files: Files, *, asked_at: float, now: float, wall: float) -> None:
        """What its files say, of a look that was begun at *asked_at*. *wall*: the time by this machine's clock."""
        seen = self.seen
        if files.began is not None and seen.began is None:
            seen.began, seen.began_at = files.began, _at(files.began.wall, now, wall)
            seen.id, seen.nodes = files.began.job or seen.id, ",".join(files.began.nodes)
        if files.ended is not None and seen.ended is None:
            seen.ended, seen.ended_at, seen.ended_since = files.ended, _at(files.ended.wall, now, wall), now
            seen.says_killed, seen.why = files.says_killed, files.why
        if files.claim is not None and files.claim != VOID:
            self.see_claim(files.claim)
        if files.beat is None:
            return
        seen.looked_at, seen.says_memory = asked_at, files.says_memory
        if seen.beat != files.beat:
            seen.goes_on = seen.beat is not None and files.beat > 0 and seen.over_since is not None
            seen.beat, seen.beat_since = files.beat, now

    def is_in(self, row: SlurmJob) -> bool:
        """Whether a line of the accounting, under its number, is about it. By its comment, or else, as most clusters
        keep none, by its name, which ends in the token's beginning, or that of the array's."""
        batch = self.element.partition("_")[0]
        if row.token:
            return row.token == self.token
        if row.batch:
            return row.batch == batch if batch else "_" in self.id
        if not batch and "_" in self.id:  # an earlier engine's, whose array nobody remembers
            return True
        return row.name.endswith(f"-{(batch or self.token)[:8]}")


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


def _at(node_s: float, now: float, wall: float) -> float:
    """A node's wall time by our clock that never jumps; clocks of two machines need not agree."""
    return now - (max(0.0, wall - node_s) if node_s else 0.0)
