"""An engine that gets no more processes or threads."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Generator
from pathlib import Path

_PLACES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


@contextlib.contextmanager
def no_more_processes(pid: int, seam: Path) -> Generator[Callable[[], bool]]:
    """The kernel refuses them to process *pid* by a cgroup of its own; where none can be made (a container), the
    engine's seam does as the kernel would, and a warning says so. Yields what tells whether one was refused yet."""
    group = _make_group()
    if group is None:
        warnings.warn("no pids cgroup can be made here: fork is refused by a seam in the engine", stacklevel=2)
        seam.touch()
        yield lambda: bool(seam.read_bytes())
        seam.unlink()
        return
    parent = group.parent
    (group / "cgroup.procs").write_text(str(pid))
    (group / "pids.max").write_text("0")
    try:
        yield lambda: "max 0" not in (group / "pids.events").read_text()
    finally:
        (group / "pids.max").write_text("max")
        with contextlib.suppress(ProcessLookupError):
            (parent / "cgroup.procs").write_text(str(pid))
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (parent / "cgroup.procs").write_text(left)
        group.rmdir()


def _make_group() -> Path | None:
    for place in _PLACES:
        group = place / f"gpudeck-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "pids.max").exists():
            return group
        group.rmdir()
    return None
