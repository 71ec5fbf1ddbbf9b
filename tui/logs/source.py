"""Which files a log view shows."""

from __future__ import annotations

from dataclasses import dataclass


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
    title: str = ""
    running: bool = False
    """It may still be written."""
    ended: str = ""
    """How the attempt ended: "succeeded", "failed", "cancelled", "interrupted"; empty: it runs."""
    why: str = ""
    """Of a failed one: "exit 1", "oom"."""

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for label, _ in self.paths)
