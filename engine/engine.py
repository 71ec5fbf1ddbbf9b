"""One engine over one open deck: core, journal, launcher and observers wired together, until the run is over."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .adapters import host
from .adapters.background import Background
from .adapters.decklock import this_machine
from .adapters.local import LocalLauncher, become_subreaper
from .adapters.simulated import SimulatedProbe
from .attempts import Attempts
from .core.events import (
    AttemptEnded,
    AttemptStarting,
    DiskState,
    Fact,
    GpuReading,
    Input,
    OptionsChanged,
    RunStarted,
    ShardsFixed,
    Shutdown,
    StartRevoked,
)
from .core.explain import why_waiting
from .core.phases import Failed, Unknown
from .core.spec import Leftovers
from .core.step import Core, at_standstill
from .logs.writer import AttemptJsonWriter
from .loop import Loop
from .opening import OpenDeck
from .orders import Box
from .ports import Known
from .protocol.messages import DeckOpened, Message
from .reporter import Reporter
from .status import counts_of, slot_count
from .visible import cuda_visible_devices
from .watcher import Watcher

Show = Callable[[Message], None]
_COLLECT_EVERY = 5_000
"""Objects made since the last collection: about a millisecond's work."""
IDLE_S = 5.0
"""A deck that has tasks and runs none says why after this long."""


class Engine:
    """Runs a deck. Made on a running asyncio loop; `run` returns when nothing is left to do here."""

    def __init__(self, opened: OpenDeck, show: Show, *, cwd: str) -> None:
        self._opened = opened
        self._deck = opened.deck
        self._show = show
        self._asyncio = asyncio.get_running_loop()
        self._clock = host.SystemClock()
        self._over = asyncio.Event()
        self._stop_signal = 0
        self._failure: BaseException | None = None
        self._gone = ""
        """What became of the state folder; "" while it is there."""
        self._status_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._said_idle = ""
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
        self._watcher = Watcher(
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
        self._handle_signals()
        self._tune_interpreter()
        try:
            self._watcher.start()
            self._begin(takes)
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

    def _begin(self, takes: Sequence[str]) -> None:
        run = self._deck.run
        continued = not run.ended
        again = continued and "all" in takes and "all" not in run.takes
        known = [Known(start.token, *self._identity(start), self._leftovers(start)) for start in self._starts()]
        verdicts = self._launcher.recover(known)
        self._fix_shards()
        for start in self._starts():
            self._reporter.adopt(start)
        self._simulate(self._starts())
        for end, start in self._opened.unsettled:
            self._attempts.ended(end, start)
        self._announce(continued and not again)
        if continued and run.options != self._opened.options:
            self._loop.record(OptionsChanged(self._opened.options))
        if continued:
            restarted = not self._opened.same_boot
            self._loop.go_on(verdicts, changed=True, boot_id=host.boot_id(), restarted=restarted)
            self._say_what_stays()
        if not continued or again:
            now = self._clock.now()
            seed = os.urandom(8).hex()
            fact = RunStarted(
                run=run.number + 1,
                seed=seed,
                at=now.boot_s,
                wall=now.wall_s,
                boot_id=host.boot_id(),
                host=host.hostname(),
                takes=tuple(takes),
                options=self._opened.options,
            )
            self._loop.begin(fact)

    def _fix_shards(self) -> None:
        """`shards = "gpus"` was resolved for the first time: it stays so, whatever GPUs are there later."""
        for entry, shards in self._opened.file.fixed_shards.items():
            if self._deck.shards.get(entry) != shards:
                self._loop.record(ShardsFixed(entry, shards))

    def _starts(self) -> list[AttemptStarting]:
        return list(self._opened.starts.values())

    def _identity(self, start: AttemptStarting) -> tuple[int, int]:
        attempt = self._deck.active[start.token].attempt()
        return (attempt.pid, attempt.start_ticks) if attempt is not None else (0, 0)

    def _leftovers(self, start: AttemptStarting) -> Leftovers:
        return self._deck.active[start.token].spec.policy.leftovers

    def _announce(self, continued: bool) -> None:
        opened = self._opened
        run = self._deck.run
        number = run.number if continued else run.number + 1
        self._show(
            DeckOpened(
                deck=self._deck.settings.name,
                file=self._reporter.shorten(opened.file.path),
                run=number,
                continued=continued,
                gpus=tuple(_gpu_line(gpu.index, gpu.name, gpu.total_mib, gpu.uuid) for gpu in opened.gpus.chosen),
                slots=slot_count(self._deck),
                simulated=opened.gpus.simulated,
                counts=counts_of(self._deck),
                log_dir=self._reporter.shorten(self._deck.settings.log_dir),
                warnings=tuple(opened.warnings),
                wall=self._clock.now().wall_s,
            )
        )

    def _say_what_stays(self) -> None:
        failed = self._deck.counts[Failed]
        if failed:
            self._note(
                f"{failed} failed in this run and stay so; once it has ended, the next one takes them up", "info"
            )
        unknown = [task.name for task in self._deck.tasks if isinstance(task.phase, Unknown)]
        if unknown:
            names = ", ".join(unknown[:5])
            self._note(
                f"what became of {names} cannot be proven: their slots stay taken, they are not started again; "
                f"--takeover says that the container or host in which they ran is gone"
            )

    # -- between the parts --------------------------------------------------------------------------------------------

    def _post(self, item: Input) -> None:
        self._loop.post(item)

    def _publish(self, facts: Sequence[Fact]) -> None:
        self._simulate(facts)
        self._reporter.publish(facts)

    def _simulate(self, facts: Sequence[Fact]) -> None:
        """Simulated GPUs are as busy as our attempts make them."""
        probe = self._opened.gpus.probe
        if not isinstance(probe, SimulatedProbe):
            return
        for fact in facts:
            if isinstance(fact, AttemptStarting):
                for uuid in fact.gpus:
                    probe.occupy(uuid, fact.token, fact.reserved_mib or None)
            elif isinstance(fact, (AttemptEnded, StartRevoked)):
                probe.release(self._reporter.token_of(fact))

    def _seen(self, readings: tuple[GpuReading, ...]) -> None:
        self._lost.clear()
        self._lost.update(reading.uuid for reading in readings if reading.lost)
        self._attempts.usage.take(readings, self._deck.gpus)

    def _after_turn(self) -> None:
        made = gc.get_count()[0]
        if made > _COLLECT_EVERY:
            if made < 10 * _COLLECT_EVERY:  # more at once is a large deck being queued: it stays, why look through it
                gc.collect()
            gc.freeze()
        self._reporter.settled()
        deck = self._deck
        if self._busy():
            return
        if self._stop_signal or deck.run.ended or self._gone or self._loop.broken or at_standstill(deck):
            self._over.set()
        elif self._idle_timer is None:
            self._idle_timer = self._asyncio.call_later(IDLE_S, self._say_why_idle)

    def _busy(self) -> bool:
        """An attempt is under way, other than those of which nothing can be proven."""
        return any(not isinstance(task.phase, Unknown) for task in self._deck.active.values())

    def _say_why_idle(self) -> None:
        """Nothing runs although something could: say what is in the way, once for each answer, whatever its numbers."""
        self._idle_timer = None
        if self._busy() or self._over.is_set():
            return
        why = "; ".join(why_waiting(self._deck, self._clock.now().boot_s))
        said = re.sub(r"\d+", "", why)
        if why and said != self._said_idle:
            self._said_idle = said
            self._note(f"nothing runs: {why}")
        self._idle_timer = self._asyncio.call_later(IDLE_S, self._say_why_idle)

    def _lock_lost(self) -> str:
        if not self._opened.lock.still_ours():
            self._gone = f"{self._opened.state.path} was removed or replaced under this engine"
        return self._gone

    def _on_disk(self, full: bool, why: str) -> None:
        """In the journal's thread."""

        def tell() -> None:
            self._loop.post(DiskState(full, why))
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

    # -- signals ------------------------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        """Handlers, never SIG_IGN: what is ignored is inherited by every task."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._asyncio.add_signal_handler(number, self._signalled, number)
        self._asyncio.add_signal_handler(signal.SIGHUP, self._note, "the terminal is gone; the deck goes on", "info")
        for number in (signal.SIGQUIT, signal.SIGUSR1):
            self._asyncio.add_signal_handler(number, lambda: None)

    def _signalled(self, number: signal.Signals) -> None:
        again = self._stop_signal != 0
        if not again:
            self._stop_signal = number
            self._note(f"{number.name}: stopping the tasks; once more kills them at once", "info")
        grace = 5.0 if os.environ.get("GITHUB_ACTIONS") == "true" else None
        self._loop.post(Shutdown(now=again, by=number.name, grace_s=grace))

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
        if self._stop_signal:
            return 128 + self._stop_signal, f"stopped by {signal.Signals(self._stop_signal).name}"
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
        for timer in (self._status_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._loop.stop()
        self._watcher.stop()
        self._opened.journal.close()
        self._writer.close()
        self._attempts.close()
        self._launcher.close()
        self._opened.lock.release()

    @staticmethod
    def _tune_interpreter() -> None:
        """A collection over a large deck takes tens of milliseconds: what is loaded by now is left alone, and the rest
        is looked through a little at a time, between turns (`_after_turn`)."""
        gc.collect()
        gc.freeze()
        gc.disable()
        # The journal's thread waits for the interpreter after each commit; the default of 5 ms would be its latency.
        sys.setswitchinterval(0.0005)


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


def _gpu_line(index: int, name: str, total_mib: int | None, uuid: str) -> str:
    size = "" if total_mib is None else f"  {total_mib / 1024:.1f} GiB"
    return f"{index}  {name}{size}  {uuid}"
