"""The control folder from the engine's side: read and written away from the loop, since a file server may be behind it.

What lies in it is told in `jobfiles`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from signal import Signals
from typing import TypeVar

from ...core.spec import StopScope
from ..background import Background
from . import jobfiles
from .jobfiles import make_again

_TIMEOUT_S = 20.0
_GATHER_S = 0.5
_LAST_S = 2.0
"""So long the end waits for the folder."""

_T = TypeVar("_T")

Found = list[tuple[str, str]]
"""Names of files, and what is in them."""


class Control:
    """All calls on the loop's thread; answers come on it, in later turns. None as an answer: the folder does not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: str, *, on_network: bool) -> None:
        self.folder = folder
        self._on_network = on_network
        self._loop = loop
        self._forgotten = (set[str](), set[str]())
        """Whose files are to be removed: all of them, and all but the claim."""
        self._forgetting: asyncio.TimerHandle | None = None
        self._closed = False
        self._reading = Background(loop)
        self._writing = Background(loop)

    def look(self, names: Collection[str], done: Callable[[Found | None], None]) -> None:
        """Read those of the files that are there."""
        self._reading.submit(lambda: _read_all(self.folder, names), done, timeout_s=_TIMEOUT_S)

    def look_around(
        self, tokens: Sequence[tuple[str, bool]], claims: Mapping[str, str], done: Callable[[Found | None], None]
    ) -> None:
        """Read how attempts began and ended, for each *token* and whether it is known to have begun. A folder that
        somebody removed is made again, with these *claims*, by token: without its own, what runs would be ended."""
        self._reading.submit(lambda: self._look_around(tokens, claims), done, timeout_s=_TIMEOUT_S)

    def beats(self, tokens: Sequence[str], done: Callable[[Mapping[str, float] | None], None]) -> None:
        """When each heartbeat was last written, as the file says; 0: never."""
        self._reading.submit(lambda: self._beats(tokens), done, timeout_s=_TIMEOUT_S)

    def read(self, work: Callable[[], _T], done: Callable[[_T | None], None]) -> None:
        """Do other work, which must not raise, that may hang as the folder may."""
        self._reading.submit(work, done, timeout_s=_TIMEOUT_S)

    def void(self, token: str, done: Callable[[bool | None], None]) -> None:
        """Take the claim of an attempt, so that no job with its token ever runs anything. False: a job has it."""
        self._writing.submit(lambda: _or_none(lambda: jobfiles.void(self.folder, token)), done, timeout_s=_TIMEOUT_S)

    def claimed_by(self, token: str, done: Callable[[str | None], None]) -> None:
        """The id of the job that has an attempt's claim; empty: not told."""
        self._reading.submit(
            lambda: _or_none(lambda: jobfiles.claimed_by(self.folder, token)), done, timeout_s=_TIMEOUT_S
        )

    def stop(self, token: str, signal: int, grace_s: float, scope: StopScope) -> None:
        """Tell the wrapper to end its tree. Where that cannot be written Slurm is what is left."""
        name = Signals(signal).name.removeprefix("SIG")
        self._write(lambda: jobfiles.write(self.folder, token, "stop", jobfiles.stop_text(name, grace_s, scope)))

    def warn(self, token: str, signal: int) -> None:
        name = Signals(signal).name.removeprefix("SIG")
        self._write(lambda: jobfiles.write(self.folder, token, "warn", jobfiles.warn_text(name)))

    def forget(self, token: str, *, keep_claim: bool = False) -> None:
        """Remove its files. *keep_claim*: a job of it may still begin, which must find the claim taken."""
        self._forgotten[keep_claim].add(token)
        if self._forgetting is None:
            self._forgetting = self._loop.call_later(0.0 if self._closed else _GATHER_S, self._forget)

    def close(self) -> None:
        """What is to be removed, now and later, is removed at once. Idempotent."""
        self._closed = True
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forget()
        self._reading.close()
        self._writing.close()

    def _forget(self) -> None:
        """To list a folder of thousands of files for each of thousands of attempts would take minutes."""
        self._forgetting = None
        gone, voided = (frozenset(tokens) for tokens in self._forgotten)
        self._forgotten = (set[str](), set[str]())

        def work() -> None:
            jobfiles.remove(self.folder, *gone)
            jobfiles.remove(self.folder, *voided, keep_claim=True)

        if self._closed:
            last = threading.Thread(target=_or_none, args=(work,), name="gpudeck-forget", daemon=True)
            last.start()
            last.join(_LAST_S)
        else:
            self._write(work)

    def _write(self, work: Callable[[], None]) -> None:
        self._writing.submit(lambda: _or_none(work), _ignore, timeout_s=_TIMEOUT_S)

    def _beats(self, tokens: Sequence[str]) -> dict[str, float] | None:
        return _or_none(lambda: {token: _modified(jobfiles.path(self.folder, token, "alive")) for token in tokens})

    def _look_around(self, tokens: Sequence[tuple[str, bool]], claims: Mapping[str, str]) -> Found | None:
        try:
            if self._on_network:
                self._refresh()
            there = os.listdir(self.folder)
        except FileNotFoundError:
            _or_none(lambda: make_again(self.folder, claims))
            return None
        except OSError:
            return None
        missing = {f"{token}.ended" for token, _ in tokens}
        missing |= {f"{token}.began" for token, begun in tokens if not begun}
        return _read_all(self.folder, missing.intersection(there))

    def _refresh(self) -> None:
        """A client of NFS shows a listing that is up to 30 s old, until a write of its own tells it of the others'."""
        path = f"{self.folder}/.look-{os.getpid()}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.unlink(path)


def _read_all(folder: str, names: Collection[str]) -> Found:
    return [(name, text) for name in sorted(names) if (text := _read(f"{folder}/{name}")) is not None]


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _or_none(work: Callable[[], _T]) -> _T | None:
    try:
        return work()
    except OSError:
        return None


def _ignore(_: object) -> None:
    pass
