"""The box that attempts run on, and what their deck was started with."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..core.spec import TaskSpec

if TYPE_CHECKING:  # who only tells commands makes no copies
    from ..snapshot.code_versions import Code

Across = Callable[[Sequence[str], int | None, int | None, Sequence[str]], tuple[str, ...] | None]
"""What a command becomes to run on another node, by its GPUs (UUIDs), cores, memory (MiB) and words; None: it runs here
as it is."""


@dataclass(slots=True)
class Box:
    """What attempts need to know about the box and the deck's start."""

    environment: Mapping[str, str]
    """What every attempt starts from."""
    visible: Callable[[tuple[str, ...]], str]
    """CUDA_VISIBLE_DEVICES for these UUIDs."""
    index_of: Mapping[str, int]
    cpus_each: int
    """Cores for a GPU task that asks for no number of its own."""
    cores: int = 1
    """Of the box."""
    now: Callable[[], float] = field(default=lambda: 0.0)
    """Seconds of CLOCK_BOOTTIME."""
    pid_ns: int = 0
    """Inode of our pid namespace."""
    notice: Callable[[str], None] = field(default=lambda _: None)
    oom_kills: Callable[[], int] = field(default=lambda: 0)
    """The kernel's count of processes that it killed for want of memory."""
    own_environment: Callable[[str], Mapping[str, str] | None] = field(default=lambda _: None)
    """What a task alone starts from, by name; None: from `environment`, like the others."""
    code: Code | None = None
    """Where tasks run copies of their code; None: they run it itself."""
    across: Across | None = None
    """None: all run here."""
    job_samples: str = ""
    """The folder in which jobs of a cluster tell what they use of their GPUs."""


def launching_python(spec: TaskSpec, box: Box) -> str:
    """The Python whose torch or accelerate starts the ranks."""
    own = None
    with contextlib.suppress(OSError):  # of an attempt that is over it may be gone
        own = box.own_environment(spec.name)
    if own is None:
        return spec.python or sys.executable
    # It was typed in another shell, which need not have the Python that runs us.
    found = (shutil.which(name, path=own.get("PATH")) for name in ("python", "python3"))
    return next(filter(None, found), spec.python or sys.executable)
