"""What is known of one task, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...engine.protocol.wire import TaskRow
from ..curves.lines import Curve
from .files import Left


@dataclass(frozen=True, slots=True)
class Known:
    """All that there is to show."""

    details: Mapping[str, Any]
    """An entry of the answer to `show`."""
    row: TaskRow
    attempt: int
    """The one that is looked at; 0: there is none yet."""
    left: Left | None = None
    """None: not read yet."""
    curves: Sequence[Curve] = ()
    reading: bool = False
    """More curves may come."""
    memory_mib: int | None = None
    """What the attempt that runs has on its GPUs now."""


def is_changed(task: Mapping[str, Any]) -> bool:
    """The file has other work for it than what it ran."""
    return "changed" in task["flags"]
