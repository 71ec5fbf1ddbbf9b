"""Which files a log view shows, from what the engine tells of the task."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

_RANK = re.compile(r"\.rank\d+\Z")


@dataclass(frozen=True, slots=True)
class LogSource:
    """The logs of one attempt."""

    task: str
    attempt: int
    attempts: tuple[int, ...]
    """All that there are, ascending."""
    paths: tuple[tuple[str, str], ...]
    """(label, absolute path), the main one first: ("stdout", …), ("stderr", …), ("rank 1", …). One where the streams
    are merged."""
    running: bool = False
    """It may still be written."""
    pending: bool = False
    """A cluster has not begun it."""
    ended: str = ""
    """How the attempt ended: "succeeded", "failed", "cancelled", "interrupted"; empty: it runs."""
    why: str = ""
    """Of a failed one: "exit 1", "oom"."""

    ranks: int = 0
    """How many processes of the task have logs of their own; 0: they are one."""
    rank: int = 0
    """Whose logs these are."""
    blamed: int = 0
    """The rank that is the reason of a failure."""

    def of_rank(self, rank: int) -> LogSource:
        """The logs of another of its processes."""
        return replace(self, rank=rank, paths=tuple((label, _of_rank(path, rank)) for label, path in self.paths))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for label, _ in self.paths)


def _of_rank(path: str, rank: int) -> str:
    stem, extension = os.path.splitext(path)
    return _RANK.sub("", stem) + (f".rank{rank}" if rank else "") + extension


_BLAMED = re.compile(r"\brank (\d{1,5}) of \d")


def source_of(details: Mapping[str, Any], attempt: int = 0) -> LogSource | None:
    """*details*: an entry of the answer to `show`. *attempt* 0: the newest. None: it has never run."""
    running = details.get("running")
    found: dict[int, tuple[str, str, bool]] = {
        each["number"]: (each["log"], each["err"], False) for each in details.get("attempts", ())
    }
    launch = details.get("launch")
    if running:
        found[running["number"]] = (running["log"], running["err"], True)
    if not found:
        return None
    number = attempt if attempt in found else [*found][-1]
    out, err, lasts = found[number]
    paths = (("stdout", out),) if err == out else (("stdout", out), ("stderr", err))
    over = None if lasts else next(each for each in details["attempts"] if each["number"] == number)
    ended, why = ("", "") if over is None else _end_of(over)
    return LogSource(
        task=details["name"],
        attempt=number,
        attempts=tuple(sorted(found)),
        paths=paths,
        running=lasts,
        pending=lasts and bool(running and running.get("job") and running.get("pending")),
        ended=ended,
        why=why,
        ranks=launch["ranks"] if launch else 0,
        blamed=0 if over is None else _blamed(over),
    )


def _blamed(attempt: Mapping[str, Any]) -> int:
    """The rank that its reason names."""
    found = _BLAMED.search(attempt.get("reason", ""))
    return int(found[1]) if found else 0


def _end_of(attempt: Mapping[str, Any]) -> tuple[str, str]:
    """What became of an attempt, and of a failed one why."""
    match attempt["kind"]:
        case "ok":
            return "succeeded", ""
        case "cancelled" | "pruned" | "interrupted" as kind:
            return kind, ""
        case "preempted":
            return "interrupted", ""
        case "exit" if attempt.get("exit_code") is not None:
            return "failed", f"exit {attempt['exit_code']}"
        case kind:
            return "failed", kind


def neighbour(number: int, numbers: Iterable[int], step: int) -> int | None:
    """The attempt before (-1) or after (1) this one; None: that is the first, or the newest."""
    others = [other for other in numbers if (other - number) * step > 0]
    return None if not others else min(others) if step > 0 else max(others)


def paged(details: Mapping[str, Any], attempt: int = 0) -> tuple[str, ...]:
    """The files that $PAGER is given: stdout, and of an attempt that failed stderr before it. Empty: it has never
    run."""
    source = source_of(details, attempt)
    if source is None:
        return ()
    failed = any(each["number"] == source.attempt and each["kind"] != "ok" for each in details.get("attempts", ()))
    paths = [path for _, path in source.paths]
    return tuple(reversed(paths)) if failed else (paths[0],)
