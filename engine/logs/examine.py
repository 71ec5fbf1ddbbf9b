"""Judges the end of an attempt by what it left: exit code, outputs, ends of its logs.

Reads files: not for the loop's thread where outputs or logs may lie on a file system that hangs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.events import Outcome
from ..core.spec import TaskSpec
from ..globs import matches
from ..text import names_text
from .failure import classify
from .outputs import OutputStamp, is_empty, stamp_of
from .printable import printable
from .ranks import tails

_CLOCK_SLACK_S = 2.0
"""Time stamps of network and FAT file systems are this coarse."""
_SHOWN_PATHS = 3


def examine(
    spec: TaskSpec,
    *,
    out_log: str,
    err_log: str,
    exit_code: int | None,
    signal: int | None,
    started_wall: float,
    before: Mapping[str, OutputStamp],
    oom_killed: bool = False,
    success_wall: float | None = None,
    said_done: bool = False,
) -> Outcome:
    """How an attempt ended, for one whose end nobody asked for (a stop's reason is known without looking).

    *before* is what `stamp_outputs` said just before its start. *success_wall* is when the task's last recorded success
    ended, if it has one: outputs not touched since were left by it and are good although this attempt left them as they
    were. *said_done*: its output has said so, whatever its exit code. For reason "ok" `detail` is a warning or empty.
    Raises nothing.
    """
    if said_done:
        return _judge_outputs(spec, exit_code, started_wall, before, success_wall)
    if exit_code is None and signal is None:
        return Outcome("lost", detail="its exit code could not be learned")
    if exit_code in spec.policy.success_codes and signal is None:
        return _judge_outputs(spec, exit_code, started_wall, before, success_wall)
    end = tails(err_log, out_log)
    return classify(
        end.err, end.out, exit_code=exit_code, signal=signal, oom_killed=oom_killed, root=end.root, ranks=end.ranks
    )


def _judge_outputs(
    spec: TaskSpec,
    exit_code: int | None,
    started_wall: float,
    before: Mapping[str, OutputStamp],
    success_wall: float | None,
) -> Outcome:
    missing: list[str] = []
    stale: list[str] = []
    older: list[str] = []
    for pattern in spec.outputs:
        found = [path for path in matches(pattern) if not is_empty(path)]
        stamps = {path: stamp for path in found if (stamp := stamp_of(path)) is not None}
        if not stamps:
            missing.append(_lacking(pattern, spec.cwd))
        elif all(_untouched(path, stamp, before, success_wall) for path, stamp in stamps.items()):
            stale.append(_shown(pattern, spec.cwd))
        elif all(stamp.mtime_ns < (started_wall - _CLOCK_SLACK_S) * 1e9 for stamp in stamps.values()):
            older.append(_shown(pattern, spec.cwd))
    if missing:
        return Outcome("missing output", exit_code, detail=_list(missing))
    if stale:
        return Outcome(
            "stale output",
            exit_code,
            detail=f"{_list(stale)}: as before the attempt, not written by it",
        )
    warning = f"{_list(older)}: older than the attempt" if older else ""
    return Outcome("ok", exit_code, detail=warning)


def _untouched(path: str, now: OutputStamp, before: Mapping[str, OutputStamp], success_wall: float | None) -> bool:
    """It is as it was before the attempt, and no recorded success vouches for that."""
    if before.get(path) != now:
        return False
    return success_wall is None or now.mtime_ns > (success_wall + _CLOCK_SLACK_S) * 1e9


def _lacking(pattern: str, cwd: str) -> str:
    exists = any(True for _ in matches(pattern))
    return f"{_shown(pattern, cwd)} is empty" if exists else _shown(pattern, cwd)


def _list(paths: Sequence[str]) -> str:
    return names_text(paths, _SHOWN_PATHS)


def _shown(path: str, cwd: str) -> str:
    """Relative to the task's folder where it lies below."""
    below = cwd.rstrip("/") + "/"
    return printable(path[len(below) :] if path.startswith(below) else path)
