"""What to do next about a job: from what was done about it, what was seen of it and the time. Pure.

Slurm's word explains the want of a wrapper's; it never overrules it. A call that failed says nothing at all, and so
changes nothing that is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...core.events import Cause
from ...core.inputs import LeaderExited, Pending, Spawned, Submitted, TreeGone
from .job import Job, Seen, Stop
from .jobfiles import NOT_EXECUTED, UNABLE, VOID, Ended
from .parse import expand_nodes
from .states import cause_of, in_words, never_starts, stand, word

Ask = Literal["look", "claim", "account", "show"]
"""look: closely at its files; claim: take its claim, so that nothing of it ever runs, or learn who has it; account: ask
sacct; show: ask the controller for it alone."""
Act = Literal["cancel", "forget"]
"""cancel: have Slurm end it; forget: it has left the queue."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What may be left of it is told to end at once."""

    why: str
    """For people; empty: it is not worth telling."""


Step = Literal["wait"] | Ask | Act | Stop | Kill | Submitted | Pending | Spawned | LeaderExited | TreeGone
"""A stop is for its wrapper; an input is to be told. After its end, or a `TreeGone` that never ran, there is nothing of
it but a job that may have to leave the queue."""


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
    """Between looks at jobs that something is wrong with."""
    back_off_s: float = 5.0
    """After Slurm takes no job for now; it doubles."""
    longest_back_off_s: float = 60.0


_SHIFT_S = 60.0
"""An expected start that moves by less is no news."""
_LISTED_S = 10.0
"""A job that is still listed so long after Slurm was asked to end it is asked for again."""
_KILLED = (128 + 9, 128 + 15)
_NEVER_SATISFIED = "DependencyNeverSatisfied"
"""Of jobs that `gpudeck submit` let wait for others: whether the task can run is the deck's to say."""
_LOST = "Slurm does not know it any more, and it wrote no exit code"
_NO_JOB = "sbatch gave no answer, and Slurm has no job of it"
_UNBEGUN = "its job ended before it began anything"
_UNSATISFIED = "what its job waited for has failed, and Slurm took it off the queue"


def next_step(job: Job, now: float, limits: Limits, folder: str) -> Step:
    """*now*: CLOCK_BOOTTIME. *folder*: where its files lie, for people. Once a step is taken there may be another,
    until it is to wait: for what was asked, for news, or where it `passes_time` for time."""
    seen = job.seen
    if job.asked or job.stage == "gone":
        return "wait"
    if seen.id and seen.id != job.id:
        return Submitted(job.token, seen.id)
    if job.stage == "void":
        return _out_of_queue(job, limits)
    if seen.began is not None and job.stage != "running":
        return Spawned(job.token, at=seen.began_at, nodes=seen.began.nodes, job=job.id)
    if job.stage == "queued":
        return "wait" if job.stop is None else _never_ran(job, now)
    if job.stage == "waiting" and (pending := _pending(job)) is not None:
        return pending
    if seen.claim == VOID:
        return _void(job, now, folder)
    if seen.ended is not None:
        return _ended(job, seen.ended, now, limits)
    return _stop(job, now, limits) or _unclear(job, now, limits)


def _unclear(job: Job, now: float, limits: Limits) -> Step:
    if job.stage == "sending":
        return "wait"
    if job.stage == "doubt":
        return _doubt(job, now, limits)
    if job.seen.over_since is not None:
        return _over(job, now, limits)
    return _absent(job, now, limits) if job.seen.absent is not None else "wait"


def _pending(job: Job) -> Pending | None:
    seen, before = job.seen, job.told
    if not seen.state:
        return Pending(job.token, "") if before is not None and before.why else None
    if stand(seen.state) != "pending":
        return None
    why = seen.reason or seen.state
    never = never_starts(why)
    new = Pending(job.token, f"{why}: {never}" if never else why, seen.begins)
    known = before is not None and new.why == before.why and not _moved(new.begins, before.begins)
    return None if known else new


def _moved(begins: float | None, before: float | None) -> bool:
    if begins is None or before is None:
        return begins is not before
    return abs(begins - before) >= _SHIFT_S


def _stop(job: Job, now: float, limits: Limits) -> Step | None:
    """Its wrapper ends it, within a second, and Slurm where it does not. Whoever makes its claim first decides whether
    it runs at all. None: nothing of that is to be done now."""
    stop, seen = job.stop, job.seen
    if stop is None:
        return None
    if job.stage != "running" and not seen.claimed:
        return "claim"
    if not stop.told:
        return stop
    overdue = now >= stop.kill_at + limits.beyond_grace_s and job.id and not seen.renumbered
    return "cancel" if overdue and (job.cancelled_at is None or _stays(job)) else None


def _stays(job: Job) -> bool:
    """The queue shows it though Slurm was asked to end it."""
    asked_at, seen = job.cancelled_at, job.seen
    return asked_at is not None and seen.over_since is None and seen.listed_at - asked_at > _LISTED_S


def _out_of_queue(job: Job, limits: Limits) -> Step:
    """Nothing of it runs: its job, if there is one, leaves the queue. Until then its claim must stay. A cached squeue
    may be older than the job."""
    seen, asked_at = job.seen, job.cancelled_at
    if not job.id or seen.renumbered:  # its own left with the controller's state, unless squeue shows an older one
        return "wait"
    if asked_at is None:
        return "cancel" if seen.over_since is None else "wait"
    if asked_at != float("inf") and seen.over_since is not None:
        return "forget"
    if seen.absent is not None and seen.absent[1] > asked_at and seen.absent_s >= limits.stale_s:
        return "forget"
    return "cancel" if _stays(job) else "wait"


def _doubt(job: Job, now: float, limits: Limits) -> Step:
    """It may be in the queue, or on its way into it for as long as Slurm's messages may take."""
    if job.seen.claimed:
        # Whoever took it was gone, or its disk full, before it said who it is: it ran nothing, and no other will.
        return _once_silent(job, now, limits, _never_ran(job, now, _UNBEGUN))
    if job.seen.row:  # it had come and gone while sbatch ran
        return Submitted(job.token, job.seen.row)
    return "claim" if job.seen.absent_s >= 2 * limits.message_timeout_s else "wait"


def _once_silent(job: Job, now: float, limits: Limits, then: Step) -> Step:
    """*then*, once its heartbeat has not been written for long, by our clock, and it has written no end."""
    seen = job.seen
    needed_s = limits.settle_s if seen.over_since is not None and not job.killed else limits.stale_s
    if seen.beat is not None and seen.looked_at - seen.beat_since >= needed_s:
        return then
    return "look" if now - seen.looked_at >= limits.judge_s else "wait"


def _ended(job: Job, ended: Ended, now: float, limits: Limits) -> Step:
    """One that was told to end by nobody here, or killed, was ended by Slurm, which knows why, and writes of memory
    into its log; both are waited for, but not for ever."""
    seen = job.seen
    by_us = job.stop is not None or ended.signal == "limit"
    if by_us or not (ended.signal or ended.code in _KILLED or seen.says_killed):
        return _as_written(job, ended, now)
    known_at = seen.over_since if seen.over_since is not None else seen.ended_since + limits.word_s
    if now < known_at:
        return "wait"
    if seen.looked_at < known_at:
        return "look" if now - seen.looked_at >= limits.judge_s else "wait"
    return _as_written(job, ended, now, *_slurms_word(seen))


def _slurms_word(seen: Seen) -> tuple[Cause, str]:
    """Its cause, and that in words; "" where it tells none. A job that it kills for its memory may fail like any other:
    the log tells."""
    state = "OUT_OF_MEMORY" if seen.says_memory and not cause_of(seen.state) else seen.state
    cause = cause_of(state)
    return cause, in_words(state, seen.nodes) if cause else ""


def _as_written(job: Job, ended: Ended, now: float, cause: Cause = "", detail: str = "") -> Step:
    """It ended as its wrapper wrote; *cause*, *detail*: Slurm's word on it."""
    seen, at = job.seen, job.seen.ended_at
    if job.stage != "running":
        return _begun_unseen(job, now)
    if ended.code is None:
        return LeaderExited(job.token, UNABLE, at, spawn_error=seen.why or _unable(ended.error, job))
    if ended.signal == "limit" and job.stop is None and not cause:
        cause, detail = "timeout", in_words("TIMEOUT", seen.nodes)
    if ended.code in NOT_EXECUTED and job.order is not None and not cause:
        return LeaderExited(job.token, ended.code, at, spawn_error=seen.why)
    return LeaderExited(job.token, ended.code, at, cause=cause, detail=detail, by_itself=ended.by_itself)


def _begun_unseen(job: Job, now: float) -> Spawned:
    """It has begun, though nobody has seen when."""
    return Spawned(job.token, at=job.seen.ended_at or now, nodes=expand_nodes(job.seen.nodes), job=job.id)


def _unable(error: str, job: Job) -> str:
    where = f" on {job.seen.nodes}" if job.seen.nodes else ""
    cwd, log = (job.order.cwd, job.order.stdout) if job.order is not None else ("", "")
    return {
        "spawn-cwd": f"its folder cannot be entered{where}: {cwd}".rstrip(": "),
        "spawn-log": f"its log cannot be written{where}: {log}".rstrip(": "),
        "setup": f"a line of setup failed{where}: its log tells more",
    }.get(error, f"it could not be started{where}: {error}")


def _over(job: Job, now: float, limits: Limits) -> Step:
    """Slurm says that it is over, and its wrapper nothing."""
    seen = job.seen
    if job.stage == "waiting" and not seen.claimed:
        return "claim"
    if not job.killed and (seen.goes_on or cause_of(seen.state) == "node_fail"):
        return Kill(_why_killed(job))
    cause, detail = _slurms_word(seen)
    detail = detail or f"{in_words(seen.state, seen.nodes)}{_because(job)}, and no exit code was written"
    return _once_silent(job, now, limits, _without_code(job, now, cause, detail))


def _why_killed(job: Job) -> str:
    """On a node that Slurm has lost sight of processes may live."""
    seen = job.seen
    what = f"{in_words(seen.state, seen.nodes)}: what may run there"
    if cause_of(seen.state) != "node_fail":
        where = f" on {seen.nodes}" if seen.nodes else ""
        what = f"Slurm says {word(seen.state)} of job {job.id}, which goes on{where}: it"
    return f"{what} is told to end, and waited for"


def _without_code(job: Job, now: float, cause: Cause, detail: str) -> Step:
    if job.stage != "running" and job.seen.claimed:
        return _begun_unseen(job, now)
    return LeaderExited(job.token, None, now, cause=cause, detail=detail)


def _because(job: Job) -> str:
    """Why it waited is not why it ended."""
    waited = job.told.why.partition(": ")[0] if job.told is not None else ""
    return f", {job.seen.reason}" if job.seen.reason not in ("", waited) else ""


def _absent(job: Job, now: float, limits: Limits) -> Step:
    """The queue does not show it, and its wrapper says nothing."""
    seen = job.seen
    if not seen.accounted:
        return "account"
    if seen.absent_s < limits.vanished_s:
        return "wait"
    if job.id and not seen.shown_gone:
        return "show"
    if job.stage == "waiting" and not seen.claimed:
        return "claim"
    # While its heart beats it may run on, and nothing says that it should not.
    return _once_silent(job, now, limits, _without_code(job, now, "", _LOST) if job.killed else Kill(""))


def _void(job: Job, now: float, folder: str) -> Step:
    """Nothing of it was or will be executed."""
    seen = job.seen
    if job.stop is not None:
        return _never_ran(job, now)
    if job.stage == "doubt":
        return _never_ran(job, now, _NO_JOB)
    if seen.over_since is not None:
        return _over_unbegun(job, now, folder)
    if seen.absent is None:
        return _never_ran(job, now)
    if seen.array_stays and stand(seen.state) == "pending":
        # Of an element that is cancelled while it waits Slurm keeps no word, and sacct still has it as pending; of what
        # a controller has lost it shows nothing of the array.
        return LeaderExited(job.token, None, now, cause="cancelled", detail=in_words("CANCELLED"))
    return _never_ran(job, now, f"Slurm has forgotten job {job.id}, which had not begun")


def _over_unbegun(job: Job, now: float, folder: str) -> Step:
    seen = job.seen
    if seen.reason == _NEVER_SATISFIED:
        return _never_ran(job, now, _UNSATISFIED)
    cause, detail, nodes = cause_of(seen.state), in_words(seen.state, seen.nodes), expand_nodes(seen.nodes)
    if cause and cause != "launch":
        return LeaderExited(job.token, None, now, cause=cause, detail=detail, nodes=nodes)
    where = f"on {seen.nodes}" if seen.nodes else "where it ran"
    why = f"its job began nothing ({detail}{_because(job)}): see its log, and whether {folder} is there {where}"
    return LeaderExited(job.token, UNABLE, now, spawn_error=why, nodes=nodes)


def _never_ran(job: Job, now: float, why: str = "") -> TreeGone:
    return TreeGone(job.token, now, never_ran=True, why=why)
