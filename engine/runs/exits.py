"""What `gpudeck run` ends with: the command's own exit code, as a shell would give it."""

from __future__ import annotations

import signal

from ..errors import EngineUnavailableError
from ..protocol.states import DONE
from ..protocol.wire import TaskRow

TIMED_OUT = 124
"""As timeout(1) has it."""
_SPAWN = (126, 127)
_OWN = ("ok", "exit", "oom", "signal")
"""Ends whose exit code is the command's."""


def exit_of(row: TaskRow, asked: signal.Signals | None) -> int:
    """*row*: the run's, ended. *asked*: the signal by which we were told to stop it."""
    code = row.exit_code
    if row.state in DONE:
        return code or 0
    if row.state == "cancelled":
        return 128 + asked if asked is not None else code or 1
    if row.kind == "timeout":
        return TIMED_OUT
    if row.kind == "spawn error":
        return code if code in _SPAWN else EngineUnavailableError.exit_code
    if row.kind == "lost":
        return EngineUnavailableError.exit_code
    return code or 1


def last_words(row: TaskRow) -> str:
    """What its own output does not tell of its end; "" for nothing."""
    if row.state == "cancelled":
        return f"{row.name} was cancelled"
    if row.state == "failed" and row.kind != "exit":
        return f"{row.name}: {row.reason}"
    return ""
