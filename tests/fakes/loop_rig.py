"""The engine's loop with a clock, a journal and a launcher that tests control; logs are real files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gpudeck.engine.attempts.attempts import Attempts
from gpudeck.engine.attempts.start_plan import Box
from gpudeck.engine.attempts.writer import AttemptJsonWriter
from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Task
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.events import Fact, RunStarted
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work
from gpudeck.engine.core.step import Core
from gpudeck.engine.logs.files import LogFolder
from gpudeck.engine.loop import Loop
from gpudeck.engine.ports import Instant
from tests.fakes.journal import MemoryJournal
from tests.fakes.launcher import FakeLauncher
from tests.rigs.entered import entered

_T = TypeVar("_T")


class FakeClock:
    def __init__(self) -> None:
        self.boot_s = 1000.0

    def now(self) -> Instant:
        return Instant(self.boot_s, 1.7e9 + self.boot_s)


class FakeAlarm:
    """`ports.Alarm` that rings when a test says so."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.at: float | None = None

    def set(self, at: float | None) -> None:
        self.at = at

    def close(self) -> None:
        self.at = None


class AtOnce:
    """`ports.Aside` that hangs only from `hold` to `release`."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for answer in held:
            answer()

    def submit(self, work: Callable[[], _T], done: Callable[[_T | None], None], **_: float) -> None:
        def answer() -> None:
            done(work())

        if self._held is None:
            asyncio.get_running_loop().call_soon(answer)
        else:
            self._held.append(answer)

    def close(self) -> None:
        pass


def task(
    name: str, *, gpus: int = 1, needs: Sequence[str] = (), outputs: Sequence[str] = (), **policy: Any
) -> TaskSpec:
    return TaskSpec(
        name=name,
        entry=name,
        position=0,
        work=Work(("true",)),
        fingerprint=f"fingerprint of {name}",
        resources=Resources(gpus=gpus),
        policy=Policy(**policy),
        needs=tuple(needs),
        outputs=tuple(outputs),
    )


class LoopRig:
    """A deck with one GPU, ready to begin its run; or on a cluster that takes so many *jobs* at once."""

    def __init__(self, folder: Path, *specs: TaskSpec, jobs: int = 0) -> None:
        backend = "slurm" if jobs else "local"
        settings = DeckSettings(log_dir=str(folder / "logs"), backend=backend, max_submitted=jobs)
        file = DeckFile(str(folder / "tasks.toml"), "tasks", settings, specs)
        self.deck = build(file, gpus=[Gpu("GPU-0", 0, 0, total_mib=81920)], cores=4)
        self.clock = FakeClock()
        self.journal = MemoryJournal()
        self.launcher = FakeLauncher(self._post, lambda: self.clock.boot_s, cluster=jobs > 0)
        self.published: list[Fact] = []
        self.writer = AttemptJsonWriter(lambda _: None)
        self.starters = AtOnce()
        self.notices: list[str] = []
        self.attempts = Attempts(
            self.deck,
            self.launcher,
            LogFolder(settings.log_dir, [spec.name for spec in specs]),
            Box(environment={}, visible=",".join, index_of={"GPU-0": 0}, cpus_each=4, notice=self.notices.append),
            self.writer,
            self._post,
            readers=AtOnce(),
            checks=AtOnce(),
            starters=self.starters,
        )
        self.loop = Loop(
            Core(self.deck),
            clock=self.clock,
            journal=self.journal,
            do=self.attempts.do,
            publish=self.published.extend,
            alarm=self._make_alarm,
        )
        self.idle = 0
        """How often the loop has said that a turn is over."""
        self.loop.after_turn = self._count

    def begin(self) -> None:
        now = self.clock.now()
        self.loop.begin(RunStarted(1, "seed", now.boot_s, now.wall_s, "boot", "host", ()))

    async def settle(self) -> None:
        """Let the loop do all that it can without time passing."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def later(self, seconds: float) -> None:
        self.clock.boot_s += seconds
        self.loop.wake()
        await self.settle()

    def __getitem__(self, name: str) -> Task:
        return self.deck.by_name[name]

    def facts(self, kind: type[Fact]) -> list[Any]:
        """Facts of a kind that are on disk."""
        return [fact for fact in self.journal.facts if isinstance(fact, kind)]

    @property
    def started(self) -> list[str]:
        """Tasks whose process was started, in order."""
        return [order.env["GPUDECK_TASK"] for order in self.launcher.orders]

    def token(self, name: str) -> str:
        """Of the newest process of a task."""
        return next(order.token for order in reversed(self.launcher.orders) if order.env["GPUDECK_TASK"] == name)

    def close(self) -> None:
        self.loop.stop()
        self.writer.close()

    def _post(self, item: Any) -> None:
        self.loop.post(item)

    def _make_alarm(self, _: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> FakeAlarm:
        self.alarm = FakeAlarm(ring)
        return self.alarm

    def _count(self) -> None:
        self.idle += 1


def looped(*specs: TaskSpec, jobs: int = 0) -> Callable[[Any], Any]:
    """Make a test of a coroutine that takes a rig with these tasks."""

    @asynccontextmanager
    async def enter(folder: Path) -> AsyncGenerator[LoopRig]:
        rig = LoopRig(folder, *specs, jobs=jobs)
        try:
            yield rig
        finally:
            rig.close()

    return entered(enter)
