"""A file system of a few megabytes that a test fills and empties."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Generator
from pathlib import Path


class SmallDisk:
    """It holds little: 3 MB and 200 files where nothing else was asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Until not one byte more can be written, and no file made."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

        with contextlib.suppress(OSError):
            for number in itertools.count():
                (self.path / f"ballast{number}").touch()

    def empty(self) -> None:
        for file in self.path.glob("ballast*"):
            file.unlink()


@contextlib.contextmanager
def small_disk(path: Path, *, megabytes: int = 3, files: int = 200) -> Generator[SmallDisk]:
    """Mounted at the new folder *path*, as root or by sudo without a password; fails where neither is to be had."""
    path.mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size={megabytes}m,nr_inodes={files},mode=1777"
    subprocess.run([*as_root, "mount", "-t", "tmpfs", "-o", options, "none", os.fspath(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run([*as_root, "umount", "-l", os.fspath(path)], check=True)
