"""Logs of attempts that are files, followed by the real helper process, which is forked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.attempts import following
from gpudeck.engine.attempts.following import Following
from gpudeck.engine.attempts.progress import Progress
from gpudeck.engine.attempts.running import RunningAttempt
from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck, Task
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.inputs import Input
from gpudeck.engine.core.phases import Attempt, Running, Starting
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Extras, TaskSpec, Work
from gpudeck.engine.logs import helper
from gpudeck.engine.logs.files import LogFolder
from tests.fakes import forked
from tests.rigs.entered import entered

PATIENCE_S = 30.0


def task(name: str, **extras: Any) -> TaskSpec:
    return TaskSpec(name, name, 0, Work(("true",)), f"fingerprint of {name}", extras=Extras(**extras))


class Rig:
    """A deck whose attempts are files that a test writes; the helper process is real."""

    def __init__(self, folder: Path, *specs: TaskSpec) -> None:
        self.folder = folder
        file = DeckFile(str(folder / "tasks.toml"), "tasks", DeckSettings(log_dir=str(folder)), specs)
        self.deck: Deck = build(file, gpus=[Gpu("GPU-0", 0, 0)], cores=4)
        self.logs = LogFolder(str(folder), [spec.name for spec in specs])
        self.posted: list[Input] = []
        self.notices: list[str] = []
        self.late_s = 0.0
        self._readings = 0
        self.following = Following(
            self.deck,
            asyncio.get_running_loop(),
            paths=self.logs.paths,
            running=self._running,
            post=self.posted.append,
            notice=self.notices.append,
            now=self._read_clock,
            store=str(folder / "metrics.json"),
        )

    def _running(self, token: str, task: Task, number: int) -> RunningAttempt:
        attempt, paths = task.attempt(), self.logs.paths(task.name, number, task.spec.policy.merge_stderr)
        return RunningAttempt(token, task.begun_spec, paths, attempt.wall if attempt is not None else 0.0)

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self.late_s

    def _read_clock(self) -> float:
        self._readings += 1
        return self.now()

    def run(self, name: str, *, ago_s: float = 60.0) -> str:
        """An attempt of a task runs since then. Returns its token."""
        found = self.deck.by_name[name]
        number = found.attempts = found.attempts + 1
        token = f"token of {name} {number}"
        attempt = Attempt(
            number, token, found.spec.fingerprint, ("GPU-0",), 0, 0, self.now() - ago_s, time.time() - ago_s
        )
        found.phase = Running(attempt)
        self.deck.active[token] = found
        self.logs.claim(name, number, self.logs.paths(name, number, False), again=False, make=False)
        self.following.wake()
        return token

    def say(self, name: str, *lines: str) -> None:
        number = self.deck.by_name[name].attempts
        with open(self.logs.paths(name, number, False).out, "a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def end(self, token: str) -> list[Progress]:
        """The attempt has ended. Returns where its last look will be told."""
        found = self.deck.active.pop(token)
        attempt = found.attempt()
        assert attempt is not None
        found.phase = Starting(attempt)
        paths = self.logs.paths(found.name, attempt.number, False)
        told: list[Progress] = []
        self.following.finish(found, RunningAttempt(token, found.spec, paths, attempt.wall), told.append)
        return told

    @property
    def helper(self) -> int:
        """Pid of the process that reads; 0: there is none now."""
        return self.following._reader.pid  # pyright: ignore[reportPrivateUsage]

    def waits(self) -> None:
        """Time passes without anything happening."""
        self.late_s += 0.5

    async def turns(self) -> None:
        """Wait until the logs have been seen to a few times: each time it is asked how late it is."""
        before = self._readings
        await self.until(lambda: self._readings > before + 3)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"what was waited for did not happen: {self.notices} {self.posted}"
            await asyncio.sleep(0.01)


def rigged(*specs: TaskSpec, fork: bool = True) -> Callable[[Any], Any]:
    """Make a test of a coroutine that takes a rig with these tasks. A second takes 50 ms. *fork*: the helper needs no
    interpreter of its own."""

    @asynccontextmanager
    async def enter(folder: Path) -> AsyncGenerator[Rig]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(following, "PERIOD_S", 0.05)
            if fork:
                patch.setattr(helper, "subprocess", forked.ForkedReaders())
            rig = Rig(folder, *specs)
            try:
                yield rig
            finally:
                rig.following.close()

    return entered(enter)
