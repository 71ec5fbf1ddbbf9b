"""What Slurm's programs print, read. Pure, but for the time zone of printed times, which is this process's own.

Written for the `-o` and `-P` text that has stayed the same since 22.05; `--json` has not. Lines that are not understood
are passed over: comments and names of other jobs may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal

SQUEUE = ("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%S|%N|%k|%j")
"""With `-u UID`: all jobs of a user; -r: a line for each element of an array. What may hold a | comes last."""
SACCT = ("sacct", "-n", "-P", "-X", "-o", "JobID,State,NodeList,Comment,JobName")
"""With `-S TIME`, and `-j IDS` or `-u UID`."""
MARK, BATCH_MARK = "gpudeck ", "gpudeck-array "
"""What the comment of a job of ours, or of an array, begins with; its token, or the batch's, comes behind."""

_JOB = r"\d+(?:_(?:\d+|\[[^\]]*\]))?"
_JOB_ID = re.compile(_JOB)
_SUBMITTED = re.compile(r"(\d+)(?:;\S*)?")


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A line of squeue."""

    id: str
    """ "1234", "1234_7", or without -r "1234_[0-5%2]" for those of an array that wait."""
    state: str
    reason: str
    """Why it waits or ended, Slurm's word; "" for none."""
    start: float | None
    """When it began, or is expected to: seconds since the epoch."""
    nodes: str
    token: str
    """"" unless it is one of ours and not in an array."""
    batch: str
    """Of the array of ours that it is in."""
    name: str


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """A line of sacct."""

    id: str
    state: str
    """As printed: "CANCELLED by 1000"."""
    nodes: str
    token: str
    """"" too where the cluster's accounting keeps no comments."""
    name: str
    batch: str = ""
    """Of the array of ours that it is in; likewise."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why sbatch took no job."""

    kind: Literal["busy", "doubt", "no"]
    """busy: not now, again later; doubt: it may have been taken; no: never, as it stands."""
    why: str
    """In sbatch's words, one line."""


def squeue_jobs(text: str) -> list[QueuedJob]:
    return [job for line in text.splitlines() if (job := _queued(line)) is not None]


def sacct_jobs(text: str) -> list[AccountedJob]:
    return [job for line in text.splitlines() if (job := _accounted(line)) is not None]


def submitted_id(out: str) -> str | None:
    """The job id that `sbatch --parsable` printed; None: there is none. Sites print more around it."""
    for line in reversed(out.splitlines()):
        if (found := _SUBMITTED.fullmatch(line.strip())) is not None:
            return found[1]
    return None


_BUSY = re.compile(
    r"resource temporarily unavailable|temporarily unable to accept|unable to contact slurm controller|"
    r"connect(?:ion)? (?:failure|refused)|standby mode|MaxSubmitJob|submit ?job ?limit|MaxJobCount|"
    r"cannot allocate memory|no space left|error writing (?:job script|script|environment)|"
    r"partition not available|authentication error|authentication credential|try again|munge",
    re.IGNORECASE,
)
_FULL = re.compile(r"MaxSubmitJob|submit ?job ?limit|MaxJobCount|\bjob submit limit", re.IGNORECASE)
_DOUBT = re.compile(
    r"timed? ?out|zero bytes were transmitted|transport endpoint|connection (?:reset|timed)|unexpected message|"
    r"communication (?:error|failure)|broken pipe|send/recv",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"^(?:sbatch|slurm_\w+|scancel|squeue|sacct|scontrol|sinfo): (?:error: |fatal: )?")


def refusal(code: int | None, err: str) -> Refusal:
    """What an sbatch that printed no job id means. *code* None: it was killed."""
    lines = [_PREFIX.sub("", line).strip() for line in err.splitlines()]
    lines = [line for line in lines if line]
    why = "; ".join(dict.fromkeys(lines[-2:]))
    if code is None or code == 0 or not lines:
        return Refusal("doubt", why)
    if _DOUBT.search(err):
        return Refusal("doubt", why)
    return Refusal("busy" if _BUSY.search(err) else "no", why)


def is_full(why: str) -> bool:
    """Whether sbatch took nothing since there are as many jobs as there may be: room comes as some of them end."""
    return _FULL.search(why) is not None


def timestamp(text: str) -> float | None:
    """Seconds since the epoch of "2026-11-23T09:00:00" in this process's time zone; None for "N/A", "Unknown"."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _queued(line: str) -> QueuedJob | None:
    fields = line.split("|")
    if len(fields) < 7 or not _JOB_ID.fullmatch(fields[0]):
        return None
    id_, state, reason, start, nodes, comment, *name = fields
    return QueuedJob(
        id=id_,
        state=state,
        reason="" if reason == "None" else reason,
        start=timestamp(start),
        nodes=nodes,
        token=_marked(comment, MARK),
        batch=_marked(comment, BATCH_MARK),
        name="|".join(name),
    )


def _accounted(line: str) -> AccountedJob | None:
    fields = line.split("|")
    if len(fields) < 5 or not _JOB_ID.fullmatch(fields[0]):
        return None
    id_, state, nodes, comment, *name = fields
    return AccountedJob(
        id=id_,
        state=state,
        nodes="" if nodes == "None assigned" else nodes,
        token=_marked(comment, MARK),
        name="|".join(name),
        batch=_marked(comment, BATCH_MARK),
    )


def _marked(comment: str, mark: str) -> str:
    return comment.removeprefix(mark).strip() if comment.startswith(mark) else ""


_MOST_NODES = 100_000
"""Nodes in one list. More is no list of Slurm's."""


def expand_nodes(nodes: str) -> tuple[str, ...]:
    """Names in a compressed list: "gpu[01-03,7],login1". What is no such list is one name."""
    return tuple(islice((name for part in _apart(nodes) for name in _expanded(part)), _MOST_NODES))


def _apart(nodes: str) -> Iterator[str]:
    """Parts between commas that are in no brackets."""
    yield from (part for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", nodes) if part)


def _expanded(part: str) -> Iterator[str]:
    head, _, rest = part.partition("[")
    inside, closing, tail = rest.partition("]")
    if not closing:
        yield part
        return
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and int(last) - int(first) < _MOST_NODES:
            numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        else:
            numbers = [piece]
        for number in numbers:
            yield from (f"{head}{number}{each}" for each in (_expanded(tail) if tail else ("",)))
