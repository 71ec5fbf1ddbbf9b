"""What a job's logs tell of processes that were killed. The user's files may hang: for helper threads."""

from __future__ import annotations

import os
import re

_TAIL_BYTES = 8192
_KILLED = re.compile(rb"\bkilled\b|SIGKILL|signal 9\b|out of memory|oom[-_ ]kill", re.IGNORECASE)
_MEMORY = re.compile(
    rb"^(?:slurmstepd|srun)\S*: error: .*(?:memory limit|oom[-_ ]kill|out of memory)", re.IGNORECASE | re.MULTILINE
)


def says_killed(*paths: str) -> bool:
    """Whether something was killed: who started it (torchrun, srun, a DataLoader) ends with a code of its own then."""
    return any(_KILLED.search(_tail(path)) for path in paths)


def says_memory(*paths: str) -> bool:
    """Whether Slurm wrote that the job had more memory than it may have."""
    return any(_MEMORY.search(_tail(path)) for path in paths)


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:
        return b""
