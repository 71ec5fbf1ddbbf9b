"""What one engine has locked: the GPUs that are its deck's, and the right to keep idle ones."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..processes import proc
from . import file
from .file import LockFile, byte_of

WRAPPER_FD = 9
"""The number that a wrapper has its description by."""

Wrapper = tuple[int, int]
"""Pid and start of a process."""


class Held:
    """The locks of an engine's own description of the file, and of those that it makes for wrappers."""

    def __init__(self, lock: LockFile) -> None:
        self.lock = lock
        self.gpus: set[str] = set()
        self.gang = False
        """It has the gang byte, and may keep idle GPUs."""

    def take(self, gpus: Collection[str], ours: Collection[str]) -> int | None:
        """Lock all of these, or none, for a wrapper and for the engine.

        *ours*: those that are this deck's anyway. Returns the wrapper's descriptor; None: another deck has one of them.
        Raises OSError when there is no descriptor to be had.
        """
        fd = self.lock.again()
        wanted = sorted((byte_of(uuid), uuid in ours) for uuid in gpus)
        if not all(file.lock(fd, byte, shared=shared) for byte, shared in wanted):
            os.close(fd)
            return None
        for byte, _ in wanted:
            file.lock(fd, byte, shared=True)
            file.lock(self.lock.fd, byte, shared=True)
        self.gpus.update(gpus)
        return fd

    def seize(self, uuid: str) -> bool:
        """Lock one for the engine alone."""
        byte = byte_of(uuid)
        if file.lock(self.lock.fd, byte, shared=False) and file.lock(self.lock.fd, byte, shared=True):
            self.gpus.add(uuid)
            return True
        return False

    def join(self, uuid: str, wrapper: Wrapper) -> bool:
        """Lock one together with a process that an earlier engine of this deck gave it to, if that has it.

        It must have it before and after we do: else another deck may have come in between.
        """
        if not self._has(wrapper, uuid):
            return False
        if file.lock(self.lock.fd, byte_of(uuid), shared=True) and self._has(wrapper, uuid):
            self.gpus.add(uuid)
            return True
        file.unlock(self.lock.fd, byte_of(uuid))
        return False

    def may_gather(self) -> bool:
        """Whether this engine is, or could now become, the one of the box that keeps idle GPUs."""
        self.gang = self.gang or file.lock(self.lock.fd, file.GANG_BYTE, shared=False)
        return self.gang

    def gather_no_more(self) -> None:
        if self.gang:
            file.unlock(self.lock.fd, file.GANG_BYTE)
            self.gang = False

    def keep_only(self, gpus: set[str]) -> None:
        for uuid in self.gpus - gpus:
            file.unlock(self.lock.fd, byte_of(uuid))
        self.gpus &= gpus

    def elsewhere(self, gpus: Collection[str]) -> list[str]:
        """Those of *gpus* that somebody else has."""
        return [uuid for uuid in gpus if uuid not in self.gpus and file.is_locked(self.lock.fd, byte_of(uuid))]

    def _has(self, wrapper: Wrapper, uuid: str) -> bool:
        pid, start_ticks = wrapper
        return file.inherited(pid, WRAPPER_FD, self.lock.identity, byte_of(uuid)) and proc.is_live(pid, start_ticks)
