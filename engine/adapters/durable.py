"""What is to survive a power cut."""

from __future__ import annotations

import os


def sync_dir(path: str) -> None:
    """Make new and renamed names in a folder durable."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
