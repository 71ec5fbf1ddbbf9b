"""Which files a log view shows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

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
    title: str = ""
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
