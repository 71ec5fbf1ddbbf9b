"""The end of an attempt in words."""

from __future__ import annotations

import re
import signal as signals

from ..core.events import Outcome

_RANK = re.compile(r"rank \d+(?: of \d+)?(?:: | killed by )")
"""A launcher's exit code tells nothing; that of the rank follows."""


def describe(outcome: Outcome) -> str:
    """One line for people: `exit 1: ValueError: bad rate`, `137 (KILL or exit 137)`, `out of memory (CUDA): …`."""
    detail = outcome.detail
    match outcome.reason:
        case "exit" if _RANK.match(detail):
            return detail
        case "exit" | "signal":
            return _with(_code(outcome), detail)
        case "oom":
            where, _, rest = detail.partition(": ")
            return _with(f"out of memory ({where})" if where else "out of memory", rest)
        case "port taken":
            return _with("port taken", detail.removeprefix("port "))
        case "timeout" if detail.startswith("after "):
            return f"timeout {detail}"
        case "pruned" if detail:
            return f"pruned by {detail}"
        case "cancelled" if detail.startswith("by "):
            return f"cancelled {detail}"
        case _:
            return _with(outcome.reason, detail)


def signal_of(exit_code: int | None) -> int | None:
    """The signal that a code of 129 to 192 may stand for."""
    return exit_code - 128 if exit_code is not None and 129 <= exit_code <= 192 else None


def signal_name(number: int) -> str:
    """`KILL`, `TERM`, `RTMIN+1`, …"""
    try:
        return signals.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"RTMIN+{number - signals.SIGRTMIN}" if number > signals.SIGRTMIN else str(number)


def _code(outcome: Outcome) -> str:
    if outcome.signal is not None:
        return f"killed by {signal_name(outcome.signal)}"
    maybe = signal_of(outcome.exit_code)
    if maybe is not None:
        return f"{outcome.exit_code} ({signal_name(maybe)} or exit {outcome.exit_code})"
    return f"exit {outcome.exit_code}" if outcome.exit_code is not None else "exit code unknown"


def _with(what: str, detail: str) -> str:
    return f"{what}: {detail}" if detail else what
