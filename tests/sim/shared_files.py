"""A file system that nodes and engines share: what one side writes the other sees later, a part of it first."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.sim.box import Simulated
from tests.sim.loop import SimLoop

_TAKES_S = (0.0005, 0.01, 0.3)
_TORN = 0.3


class SharedFiles:
    """Engines look at a real folder with their own calls, each through `do`; nodes through the other methods."""

    def __init__(self, box: Simulated, lag_s: float, *, tells: bool) -> None:
        """*lag_s*: the most that one side is behind the other. *tells*: the kernel tells engines of what nodes write,
        as on one machine."""
        self._box = box
        self._random = box.random
        self.lag_s = lag_s
        self._tells = tells
        self.full = False
        self.hangs_until = 0.0
        """By the wall clock."""
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        """Called around each look of an engine."""
        self.listeners: list[SimArrivals] = []
        self._versions: Counter[str] = Counter()

    # -- engines

    def takes_s(self) -> float:
        """How long the next look will take."""
        return max(self._random.choice(_TAKES_S), self.hangs_until - self._box.instant().wall_s)

    def spacious(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """A write of an engine, which fails where there is no space."""

        def tried(*args: Any, **how: Any) -> Any:
            if self.full:
                raise OSError(errno.ENOSPC, "no space is left")
            return write(*args, **how)

        return tried

    def void(self, void: Callable[[str, str], str]) -> Callable[[str, str], str]:
        """`jobfiles.void`: without space an empty file comes of it."""

        def tried(folder: str, token: str) -> str:
            if self.full and not os.path.exists(claim := f"{folder}/{token}.claim"):
                os.close(os.open(claim, os.O_WRONLY | os.O_CREAT, 0o600))
                raise OSError(errno.ENOSPC, "no space is left")
            return void(folder, token)

        return tried

    def do(self, work: Callable[[], Any]) -> Any:
        self.before()
        try:
            return work()
        finally:
            self.after()

    def within(self, limit_s: float, work: Callable[[], Any]) -> Any:
        """`adapters.background.within`."""
        if self.takes_s() >= limit_s:
            raise TimeoutError
        return self.do(work)

    # -- nodes

    def lag(self) -> float:
        return self._random.uniform(0.0, self.lag_s)

    def create(self, path: str, text: str) -> bool:
        """A file that is not there; who is first is decided on the server, what stands in it is seen later."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return self.write(path, text)
        return False

    def write(self, path: str, text: str) -> bool:
        """In one go; the newest counts. False: there is no space, for more than a part."""
        if self.full:
            self.lose(path, text)
            return False
        self._versions[path] += 1
        version, lag = self._versions[path], self.lag()
        if self._random.random() < _TORN:
            part = text[: self._random.randrange(len(text))]
            self._box.after(lag * self._random.random(), lambda: self._show(path, part, version))
        self._box.after(lag, lambda: self._show(path, text, version))
        return True

    def lose(self, path: str, text: str) -> None:
        """A write that its node did not live, or had no space, to finish: nothing of it stays, or a part."""
        self._versions[path] += 1
        if text and self._random.random() < 0.5:
            self._show(path, text[: self._random.randrange(len(text))], self._versions[path])

    def beat(self, path: str, at: float) -> None:
        """Its heartbeat is seen to have been written last at *at*."""
        with contextlib.suppress(FileNotFoundError), open(path, "a"):
            os.utime(path, (at, at))

    def read(self, path: str) -> str:
        """As the server has it; "": it is not there."""
        with contextlib.suppress(FileNotFoundError), open(path) as file:
            return file.read().strip()
        return ""

    def _show(self, path: str, text: str, version: int) -> None:
        if self._versions[path] != version:
            return
        with contextlib.suppress(FileNotFoundError), open(path, "w") as file:
            file.write(text)
        for listener in self.listeners if self._tells else ():
            listener.told(path)


class SimArrivals:
    """`inotify.Arrivals`."""

    def __init__(self, files: SharedFiles, loop: SimLoop, folder: str, arrived: Callable[[set[str]], None]) -> None:
        self._files, self._loop, self._folder, self._arrived = files, loop, folder, arrived
        files.listeners.append(self)

    def told(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder == self._folder:
            self._loop.call_soon(self._arrived, {name})

    def close(self) -> None:
        if self in self._files.listeners:
            self._files.listeners.remove(self)


class SimBackground:
    """`adapters.background.Background` on the shared file system: what hangs is given up, and done late."""

    def __init__(self, files: SharedFiles, loop: SimLoop) -> None:
        self._files, self._loop = files, loop
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any], None], float]] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], *, timeout_s: float = 2.0) -> None:
        self._jobs.append((work, done, timeout_s))
        if len(self._jobs) == 1:
            self._next()

    def close(self) -> None:
        self._jobs.clear()

    def _next(self) -> None:
        work, _, timeout_s = self._jobs[0]
        takes_s = self._files.takes_s()
        if takes_s < timeout_s:
            self._loop.call_later(takes_s, self._do, self._jobs[0])
        else:
            self._loop.call_later(takes_s, self._files.do, work)
            self._loop.call_later(timeout_s, self._finish, self._jobs[0], None)

    def _do(self, job: tuple[Callable[[], Any], Callable[[Any], None], float]) -> None:
        self._finish(job, self._files.do(job[0]))

    def _finish(self, job: tuple[Callable[[], Any], Callable[[Any], None], float], result: Any) -> None:
        if self._jobs and self._jobs[0] is job:
            self._jobs.popleft()
            if self._jobs:
                self._next()
            job[1](result)
