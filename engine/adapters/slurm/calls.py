"""Slurm's programs, run away from the loop, each for no longer than it may take."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..background import Background

ASKED = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION")
"""What people set for all of their jobs. To sbatch these go before the lines of a script."""
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "SLURM_CONF", "SLURM_CLUSTERS", "KRB5CCNAME", *ASKED)
"""What Slurm's programs may see of an environment: all else could change what they do, or what a job gets."""
_AT_ONCE = 32
_REAP_S = 2.0
"""For a killed program's pipes to close."""
_HUNG_S = 5.0
"""Beyond a call's own limit: then its thread hangs (a dead file server) and is left behind."""

NOT_BEGUN = 127
"""The code of a program that could not be begun."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    code: int | None
    """None: killed since it took too long, or ended by a signal; what it did is not known. 127: it was not begun, for
    there is no such program, or no process for it."""
    out: str = ""
    err: str = ""
    took_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.code == 0


def small_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The little of *environ* that Slurm's programs are given."""
    return {name: environ[name] for name in _KEPT if name in environ}


def run_program(
    argv: Sequence[str], environ: Mapping[str, str], *, timeout_s: float, stdin: str = os.devnull
) -> Answer:
    """Run a program to its end, on the file *stdin*. Blocks; raises nothing. In a group of its own: Ctrl-C is not meant
    for it."""
    began_s = time.monotonic()
    try:
        source = open(stdin, "rb")  # noqa: SIM115  (the child's own, closed here below)
    except OSError as error:
        return Answer(NOT_BEGUN, "", f"{stdin}: {error.strerror or error}")
    try:
        child = subprocess.Popen(
            argv,
            env=environ,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            cwd="/",
            process_group=0,
        )
    except OSError as error:
        return Answer(NOT_BEGUN, "", f"{argv[0]}: {error.strerror or error}")
    finally:
        source.close()
    code: int | None = None
    try:
        out, err = child.communicate(timeout=timeout_s)
        code = child.returncode if child.returncode >= 0 else None
    except subprocess.TimeoutExpired:
        out, err = _killed(child)
        err += f"no answer in {timeout_s:g} s"
    return Answer(code, out, err, time.monotonic() - began_s)


def _killed(child: subprocess.Popen[str]) -> tuple[str, str]:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, 9)
    try:
        return child.communicate(timeout=_REAP_S)
    except subprocess.TimeoutExpired:  # stuck in the kernel
        return "", ""


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
            timeout_s=timeout_s + _REAP_S,
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
