"""What srun says of a step of several tasks that failed: which of them was first, and how it ended. Pure."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence

from .cause import RootCause

_SAID = re.compile(r"(?:srun|slurmstepd[\w.-]*): ")
_ENDED = re.compile(r"srun: error: [^\s:]+: tasks? (\d+)[\d,-]*: (.+)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_SIGNALS = {signals.strsignal(number): int(number) for number in signals.valid_signals()}


def step_cause(lines: Sequence[str]) -> RootCause | None:
    """The first task that srun names: those after it were ended because of it. None: it names none."""
    for line in lines:
        if said := _ENDED.match(line):
            return RootCause(int(said[1]), _code(said[2]), (line,))
    return None


def split_step(lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The tasks' lines, and srun's."""
    said = [line for line in lines if _SAID.match(line)]
    return ([line for line in lines if not _SAID.match(line)], said) if said else (lines, ())


def _code(words: str) -> int | None:
    """As `RootCause` has it: a signal's number is negative."""
    if code := _CODE.match(words):
        return int(code[1])
    number = _SIGNALS.get(words.removesuffix(" (core dumped)"))
    return -number if number is not None else None
