"""Slurm's programs, run away from the loop, each for no longer than it may take."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ..background import Background
from ..programs import NOT_BEGUN, REAP_S, Answer, run_program
from .parse import SlurmJob, squeue_jobs
from .states import stand

ASKED = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION")
"""What people set for all of their jobs. To sbatch these go before the lines of a script."""
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "SLURM_CONF", "SLURM_CLUSTERS", "KRB5CCNAME", *ASKED)
"""What Slurm's programs may see of an environment: all else could change what they do, or what a job gets."""
_AT_ONCE = 32
_HUNG_S = 5.0
"""Beyond a call's own limit: then its thread hangs (a dead file server) and is left behind."""

QUERY_S, SHOW_S = 60.0, 20.0
"""What squeue and sacct, and what scontrol for one job, may take."""

_T = TypeVar("_T")


def small_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The little of *environ* that Slurm's programs are given."""
    return {name: environ[name] for name in _KEPT if name in environ}


class Calls:
    """Calls of Slurm's programs, and other work about them that may take seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environ: Mapping[str, str]) -> None:
        self.environ = small_environment(environ)
        self._background = Background(loop, threads=_AT_ONCE)

    def run(self, argv: Sequence[str], done: Callable[[Answer], None], *, timeout_s: float) -> None:
        """Run a program; *done* gets its answer on the loop's thread, never before this returns."""
        self.work(
            lambda: run_program(argv, self.environ, timeout_s=timeout_s),
            lambda answer: done(answer or Answer(None, "", f"{argv[0]}: no answer", timeout_s)),
            timeout_s=timeout_s + REAP_S,
        )

    def leave(self, argv: Sequence[str]) -> None:
        """Begin a program that goes on by itself when this process is gone; one that cannot be begun is given up."""
        with contextlib.suppress(OSError):
            subprocess.Popen(
                argv, env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip

    def work(self, work: Callable[[], _T], done: Callable[[_T | None], None], *, timeout_s: float) -> None:
        """Do *work*, which must not raise; *done* gets what it returned, or None where it hangs beyond *timeout_s*."""
        self._background.submit(work, done, timeout_s=timeout_s + _HUNG_S)

    def close(self) -> None:
        """Nobody is told any more; programs that run go on to their ends."""
        self._background.close()


@dataclass(frozen=True, slots=True)
class Queue:
    """What squeue has told at one moment."""

    answer: Answer = field(default_factory=lambda: Answer(None))
    lines: frozenset[str] = frozenset()
    changed: tuple[SlurmJob, ...] = ()
    """Those of which the lines are not as they were before."""
    ids: frozenset[str] = frozenset()
    """Of all jobs listed."""
    arrays: frozenset[str] = frozenset()
    """Numbers of those of which it shows elements."""


def look_at_queue(query: Sequence[str], environ: Mapping[str, str], before: frozenset[str]) -> Queue:
    """Ask for lines that begin with a job's id and `|`, and read what is not as it was *before*: thousands of lines are
    compared in a millisecond, not read. Blocks."""
    answer = run_program(query, environ, timeout_s=QUERY_S)
    if not answer.ok:
        return Queue(answer)
    lines = answer.out.splitlines()
    changed = squeue_jobs("\n".join([line for line in lines if line not in before]))
    ids = frozenset(line.partition("|")[0] for line in lines)
    arrays = frozenset(each.partition("_")[0] for each in ids if "_" in each)
    return Queue(answer, frozenset(lines), tuple(changed), ids, arrays)


def why_silent(program: str, answer: Answer) -> str:
    """Slurm's words on why one of its programs has failed."""
    lines = answer.err.strip().splitlines()
    return f"{program}: {_BEFORE.sub('', lines[-1]) if lines else f'exit code {answer.code}'}"


Shown = Literal["there", "gone", "silent"]
"""silent: it did not answer, which says nothing."""

_BEFORE = re.compile(r"^(?:squeue: )?(?:error: )?(?:slurm_\w+(?: error)?: )?")
_UNKNOWN = re.compile(r"Invalid job id|^Job \S+ not found", re.MULTILINE)
"""The second of an element, and on its standard output."""
_STATE = re.compile(r"\bJobState=(\w+)")


def show_jobs(asked: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> list[Shown]:
    """What the controller says of jobs by their numbers, of which ours have these comments and others have not. Blocks.
    Once it is silent it is not asked for the rest, of which nothing is in what this returns."""
    found: list[Shown] = []
    for job_id, comment in asked:
        answer = run_program(("scontrol", "show", "job", job_id), environ, timeout_s=SHOW_S)
        found.append(shown(answer, comment))
        if found[-1] == "silent":
            break
    return found


def shown(answer: Answer, comment: str) -> Shown:
    """What `scontrol show job` means."""
    state = _STATE.search(answer.out)
    if answer.ok and state is not None:
        return "there" if comment in answer.out and stand(state[1]) != "over" else "gone"
    return "gone" if _UNKNOWN.search(answer.err + answer.out) or answer.code == NOT_BEGUN else "silent"
