"""Programs of the system (Slurm's, systemctl), each run to its end for no longer than it may take."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REAP_S = 2.0
"""For a killed program's pipes to close."""
NOT_BEGUN = 127
"""The code of a program that could not be begun."""


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
        return child.communicate(timeout=REAP_S)
    except subprocess.TimeoutExpired:  # stuck in the kernel
        return "", ""
