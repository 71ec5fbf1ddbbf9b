"""One engine over one open deck: core, journal, launcher and observers wired together, until the run is over."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .adapters import host
from .adapters.background import Background
from .adapters.decklock import this_machine
from .adapters.local import LocalLauncher, become_subreaper
from .adapters.simulated import SimulatedProbe
from .attempts import Attempts
from .core.events import Fact
from .core.explain import stuck_behind_unknown, why_waiting
from .core.inputs import GpuReading, Input, JournalState
from .core.phases import Unknown
from .core.step import Core, at_standstill
from .idle import IdleNote
from .logs.writer import AttemptJsonWriter
from .loop import Loop
from .opening import OpenDeck
from .orders import Box
from .protocol.messages import Message
from .reporter import Reporter
from .sampler import Sampler
from .signals import StopSignals
from .status import counts_of, slot_count
from .takeup import TakeUp
from .tuning import settle, tidy
from .visible import cuda_visible_devices

Show = Callable[[Message], None]


class Engine:
    """Runs a deck. Made on a running asyncio loop; `run` returns when nothing is left to do here."""

    def __init__(self, opened: OpenDeck, show: Show, *, cwd: str) -> None:
        self._opened = opened
        self._deck = opened.deck
        self._asyncio = asyncio.get_running_loop()
        self._clock = host.SystemClock()
        self._over = asyncio.Event()
        self._signals = StopSignals(self._asyncio, self._post, lambda text: self._note(text, "info"))
        self._failure: BaseException | None = None
        self._gone = ""
        """What became of the state folder; "" while it is there."""
        self._status_timer: asyncio.TimerHandle | None = None
        self._idle = IdleNote(
            self._asyncio, lambda: not self._busy() and not self._over.is_set(), self._why_idle, self._note
        )
        self._lost: set[str] = set()
        """Lost GPUs of the box, the deck's or not: CUDA counts without them."""
        self._box = _box(opened, self._lost, self._note)
        self._writer = AttemptJsonWriter(lambda text: self._from_thread(lambda: self._note(text)))
        core = Core(self._deck)
        become_subreaper()  # before the launcher looks what it can rely on
        self._launcher = LocalLauncher(
            opened.state.attempts,
            self._post,
            self._asyncio,
            same_boot=opened.same_boot,
            same_namespace=opened.same_namespace,
        )
        self._attempts = Attempts(
            self._deck,
            self._launcher,
            opened.logs,
            self._box,
            self._writer,
            self._post,
            readers=Background(self._asyncio),
            checks=Background(self._asyncio),
        )
        self._attempts.guard = self._lock_lost
        self._writer.on_ended = lambda paths: self._from_thread(lambda: self._attempts.written(paths))
        self._reporter = Reporter(self._deck, self._attempts, self._clock, show, cwd=cwd)
        self._loop = Loop(core, clock=self._clock, journal=opened.journal, do=self._attempts.do, publish=self._publish)
        self._loop.after_turn = self._after_turn
        self._attempts.behind = lambda: self._loop.behind
        opened.journal.on_disk = self._on_disk
        self._sampler = Sampler(
            opened.gpus.probe,
            [gpu.uuid for gpu in opened.gpus.inventory.gpus] if opened.gpus.chosen else [],
            members=self._launcher.members,
            mem_available_mib=host.mem_available_mib,
            post=self._post,
            seen=self._seen,
            host_too=any(task.spec.resources.memory_mib for task in self._deck.tasks),
        )

    # -- the run ------------------------------------------------------------------------------------------------------

    async def run(self, *, takes: Sequence[str], status_period_s: float) -> int:
        """Start or continue a run and see it through. Returns the exit code."""
        self._asyncio.set_exception_handler(lambda _, context: self._failed(context))
        settle()
        try:
            self._sampler.start()
            self._take_up().begin(takes)
            if status_period_s:
                self._tell_status(status_period_s)
            await self._over.wait()
        finally:
            self._close()
        # What the writer's thread had to say comes before the end of the run.
        await asyncio.sleep(0)
        code, why = self._verdict()
        self._reporter.finished(code, why)
        if self._failure is not None:
            traceback.print_exception(self._failure)
        return code

    def _take_up(self) -> TakeUp:
        probe = self._opened.gpus.probe
        if isinstance(probe, SimulatedProbe):
            probe.follow(tuple(self._opened.starts.values()))
        return TakeUp(
            self._opened,
            loop=self._loop,
            launcher=self._launcher,
            attempts=self._attempts,
            reporter=self._reporter,
            clock=self._clock,
        )

    # -- between the parts --------------------------------------------------------------------------------------------

    def _post(self, item: Input) -> None:
        self._loop.post(item)

    def _publish(self, facts: Sequence[Fact]) -> None:
        probe = self._opened.gpus.probe
        if isinstance(probe, SimulatedProbe):
            probe.follow(facts)
        self._reporter.publish(facts)

    def _seen(self, readings: tuple[GpuReading, ...]) -> None:
        self._lost.clear()
        self._lost.update(reading.uuid for reading in readings if reading.lost)
        self._attempts.usage.take(readings, self._deck.gpus)

    def _after_turn(self) -> None:
        tidy()
        self._reporter.settled()
        deck = self._deck
        if self._busy():
            return
        if self._signals.first or deck.run.ended or self._gone or self._loop.broken or self._stands_still():
            self._over.set()
        else:
            self._idle.watch()

    def _stands_still(self) -> bool:
        """Nothing can start any more unless a user acts."""
        return at_standstill(self._deck) or stuck_behind_unknown(self._deck, self._clock.now().boot_s)

    def _busy(self) -> bool:
        """An attempt is under way, other than those of which nothing can be proven."""
        return any(not isinstance(task.phase, Unknown) for task in self._deck.active.values())

    def _why_idle(self) -> str:
        return "; ".join(why_waiting(self._deck, self._clock.now().boot_s))

    def _lock_lost(self) -> str:
        if not self._opened.lock.still_ours():
            self._gone = f"{self._opened.state.path} was removed or replaced under this engine"
        return self._gone

    def _on_disk(self, full: bool, why: str) -> None:
        """In the journal's thread."""

        def tell() -> None:
            self._loop.post(JournalState(not full, why))
            if full:
                self._note(f"the journal cannot be written ({why}): running tasks go on, nothing new starts", "error")
            else:
                self._loop.behind = False
                self._attempts.caught_up()
                self._note("the journal can be written again", "info")

        self._from_thread(tell)

    def _from_thread(self, call: Callable[[], None]) -> None:
        if not self._asyncio.is_closed():
            self._asyncio.call_soon_threadsafe(call)

    def _note(self, text: str, level: str = "warning") -> None:
        self._reporter.note(level, text)

    def _tell_status(self, period_s: float) -> None:
        def tick() -> None:
            self._reporter.status()
            self._tell_status(period_s)

        self._status_timer = self._asyncio.call_later(period_s, tick)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _failed(self, context: Mapping[str, Any]) -> None:
        """A bug of ours: memory is not trusted any more. Tasks go on; the next engine reads what is on disk."""
        error = context.get("exception")
        if isinstance(error, Exception) and self._failure is None:
            self._failure = error
            self._over.set()

    def _verdict(self) -> tuple[int, str]:
        deck = self._deck
        if self._failure is not None:
            return 3, f"internal error ({self._failure!r}): tasks run on, the next start takes them over"
        stop = self._signals.first
        if stop is not None:
            return 128 + stop, f"stopped by {stop.name}"
        lost = self._gone or self._loop.broken
        if lost and not deck.run.ended:
            return 3, lost
        counts = counts_of(deck)
        if deck.run.halted:
            return 1, f"halted by {deck.run.halted}"
        if counts.succeeded + counts.cached == counts.total:
            return 0, ""
        return 1, ""

    def _close(self) -> None:
        self._idle.stop()
        if self._status_timer is not None:
            self._status_timer.cancel()
        self._loop.stop()
        self._sampler.stop()
        self._opened.journal.close()
        self._writer.close()
        self._attempts.close()
        self._launcher.close()
        self._opened.lock.release()


def _box(opened: OpenDeck, lost: set[str], notice: Callable[[str], None]) -> Box:
    inventory = opened.gpus.inventory
    inherited = opened.environment.get("CUDA_VISIBLE_DEVICES")
    slots = max(1, slot_count(opened.deck))

    def visible(uuids: tuple[str, ...]) -> str:
        return cuda_visible_devices(uuids, inventory, inherited=inherited, lost=lost)

    return Box(
        environment=opened.environment,
        visible=visible,
        index_of={gpu.uuid: gpu.index for gpu in inventory.gpus},
        cpus_each=max(1, opened.deck.cores // slots),
        now=host.boottime_s,
        pid_ns=this_machine().pid_ns,
        notice=notice,
        oom_kills=host.oom_kills,
    )
