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
class SlurmJob:
    """A line of squeue or sacct."""

    id: str
    """ "1234", "1234_7", or without -r "1234_[0-5%2]" for those of an array that wait."""
    state: str
    """As printed: of sacct "CANCELLED by 1000", too."""
    nodes: str
    token: str
    """"" unless it is one of ours and not in an array; and where the cluster's accounting keeps no comments."""
    batch: str
    """Of the array of ours that it is in; likewise."""
    name: str
    reason: str = ""
    """Why it waits or ended, squeue's word; "" for none."""
    start: float | None = None
    """When it began, or is expected to: seconds since the epoch; of squeue alone."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What came of an sbatch."""

    kind: Literal["taken", "busy", "doubt", "no", "unwritten", "unbegun"]
    """busy: not now, again later; doubt: it may have been taken; no: never, as it stands; unwritten: its script could
    not be, and sbatch was not called; unbegun: there is no sbatch now, or no process for it: a file server that is
    away, a new version being installed."""
    why: str = ""
    """In sbatch's words, one line."""
    job_id: str = ""
    """As taken."""
    anywhere: bool = False
    """Taken also on nodes that failed under it: with them excluded it was refused."""


def squeue_jobs(text: str) -> list[SlurmJob]:
    found: list[SlurmJob] = []
    for id_, state, reason, start, nodes, comment, *name in _lines_of(text, 7):
        reason = "" if reason == "None" else reason
        found.append(SlurmJob(id_, state, nodes, *_ours(comment), "|".join(name), reason, timestamp(start)))
    return found


def sacct_jobs(text: str) -> list[SlurmJob]:
    found: list[SlurmJob] = []
    for id_, state, nodes, comment, *name in _lines_of(text, 5):
        nodes = "" if nodes == "None assigned" else nodes
        found.append(SlurmJob(id_, state, nodes, *_ours(comment), "|".join(name)))
    return found


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


def refusal(code: int | None, err: str) -> Submission:
    """What an sbatch that printed no job id means. *code* None: it was killed."""
    lines = [_PREFIX.sub("", line).strip() for line in err.splitlines()]
    lines = [line for line in lines if line]
    why = "; ".join(dict.fromkeys(lines[-2:]))
    if code is None or code == 0 or not lines or _DOUBT.search(err):
        return Submission("doubt", why)
    return Submission("busy" if _BUSY.search(err) else "no", why)


def is_full(why: str) -> bool:
    """Whether sbatch took nothing since there are as many jobs as there may be: room comes as some of them end."""
    return _FULL.search(why) is not None


def timestamp(text: str) -> float | None:
    """Seconds since the epoch of "2026-11-23T09:00:00" in this process's time zone; None for "N/A", "Unknown"."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _lines_of(text: str, fields: int) -> Iterator[list[str]]:
    """Those that are of a job, with so many fields at least."""
    for line in text.splitlines():
        found = line.split("|")
        if len(found) >= fields and _JOB_ID.fullmatch(found[0]):
            yield found


def _ours(comment: str) -> tuple[str, str]:
    """Token and batch."""
    if comment.startswith(MARK):
        return comment.removeprefix(MARK).strip(), ""
    return "", comment.removeprefix(BATCH_MARK).strip() if comment.startswith(BATCH_MARK) else ""


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
