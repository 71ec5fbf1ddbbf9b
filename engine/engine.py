"""One engine over one open deck: core, journal, launcher, clients and observers wired together, until it is done."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .adapters import host
from .adapters.alarm import Alarm
from .adapters.claims.claims import Claims
from .adapters.processes.launcher import become_subreaper
from .adapters.simulated import SimulatedProbe
from .attempts.writer import AttemptJsonWriter
from .core.events import AttemptStarting, Fact
from .core.inputs import Input, Shutdown
from .core.readings import GpuReading
from .core.runs import take_up_new
from .core.spec import TaskSpec
from .core.step import Core
from .core.why_waiting import why_waiting
from .decks.opening import OpenDeck
from .decks.options import ASKED_ONLY, Purpose
from .disk_watch import DiskWatch
from .ending import Ending, Mode
from .errors import EngineUnavailableError
from .idle import IdleNote
from .live.live_file import LiveFile, answer
from .loop import Loop
from .parts import (
    attempts_of,
    box_of,
    cluster_watch_of,
    code_of,
    cpus_each,
    following_of,
    forecasts_of,
    launcher_of,
    needs_host_memory,
    notices_of,
    sampler_of,
)
from .protocol.messages import Message
from .protocol.wire import Request
from .quiet import QuietStart
from .report.reporter import Reporter
from .serve.requests import Hooks, Requests
from .serve.server import Serving
from .serve.view import DeckView
from .signals import StopSignals
from .state_watch import StateWatch
from .takeup import TakeUp
from .tuning import settle, tidy

Show = Callable[[Message], None]

_LAST_NOTICES_S = 15.0
"""What is to be told away from the terminal holds up the end for so long at most."""
_LAST_TURNS = 4
"""Of the asyncio loop: a written fact is told to who waits for it, who then answers."""


class Engine:
    """Runs a deck. Made on a running asyncio loop; `run` returns when nothing is left to do here."""

    def __init__(self, opened: OpenDeck, show: Show, *, cwd: str, mode: Mode = "headless") -> None:
        """*show* is told what happens. *mode*: "headless" sees one run through; the others serve clients until nothing
        is left to run and nobody is attached."""
        self._opened = opened
        self._mode: Mode = mode
        self._out = show
        self._deck = opened.deck
        self._asyncio = asyncio.get_running_loop()
        self._clock = host.SystemClock()
        self._ending = Ending(self._deck, mode, self._clock, clients=lambda: self._serving.clients)
        self._signals = StopSignals(
            self._asyncio, self._post, lambda text: self._note(text, "info"), self._ending, alone=mode != "headless"
        )
        self._status_timer: asyncio.TimerHandle | None = None
        self._idle = IdleNote(self._asyncio, self._is_idle, self._why_idle, self._note)
        self._lost: set[str] = set()
        """Lost GPUs of the box, the deck's or not."""
        self._code = code_of(opened, self._asyncio, self._note_from_thread)
        self._box = box_of(opened, self._lost, self._note, self._code)
        self._writer = AttemptJsonWriter(self._note_from_thread)
        become_subreaper()  # before the launcher looks what it can rely on
        claims = Claims.of_deck(self._deck.settings.name, opened.state.path, self._note)
        self._launcher = launcher_of(opened, self._asyncio, claims, self._arrived, self._note)
        self._attempts = attempts_of(opened, self._asyncio, self._launcher, self._box, self._writer, self._post)
        self._notices = notices_of(opened, self._note_from_thread, self._attempts.running.paths)
        self._following = following_of(opened, self._asyncio, self._attempts.running, self._post, self._watched)
        self._forecasts = forecasts_of(opened, self._asyncio)
        self._reporter = Reporter(
            self._deck, self._attempts, self._clock, self._show, cwd=cwd, forecasts=self._forecasts
        )
        self._loop = Loop(
            Core(self._deck),
            clock=self._clock,
            journal=opened.journal,
            do=self._attempts.do,
            publish=self._publish,
            alarm=Alarm,
        )
        self._state = StateWatch(
            opened, self._loop, self._attempts.ends, self._note, self._from_thread, self._ending.give_up
        )
        self._sampler = sampler_of(opened, self._launcher, claims, self._post, self._seen)
        self._disks = DiskWatch(opened.file, self._post, self._asyncio)
        self._quiet = QuietStart(self._deck, self._loop.wake, self._ending.leave, clients=lambda: self._serving.clients)
        self._serving = self._serve()
        self._live = LiveFile(
            opened, self._loop, note=self._note, changed=self._serving.turned, applied=self._reloaded,
            headless=mode == "headless",
        )  # fmt: skip
        self._connect()

    def _connect(self) -> None:
        """Tell parts of those that were made after them."""
        self._ending.lost = self._state.lost
        self._ending.run_over = self._reporter.run_over
        self._loop.foresee = self._attempts.starter.foresee
        self._attempts.starter.guard = self._state.bar
        ends = self._attempts.ends
        ends.following = self._following
        ends.behind = lambda: self._loop.behind
        self._writer.on_ended = lambda paths: self._from_thread(lambda: ends.written(paths))
        self._loop.after_turn = self._after_turn
        if self._code is not None:
            self._loop.taps.append(self._code.hear)
        self._opened.journal.on_disk = self._state.on_disk

    def _serve(self) -> Serving:
        inventory = self._opened.gpus.inventory.gpus
        path = self._opened.file.path
        infos = {gpu.uuid: gpu for gpu in inventory}
        view = DeckView(
            self._deck, self._clock, file=path, infos=infos, seen=self._following.of,
            last_metrics=self._following.last_metrics,
            file_plan=lambda: self._live.summary, file_problem=lambda: self._live.problem,
            closer=self._opened.probe.telemetry, cluster=cluster_watch_of(self._opened, self._asyncio),
            forecasts=self._forecasts, former_log_dirs=self._opened.logs.former,
        )  # fmt: skip
        requests = Requests(
            self._deck, view, self._attempts, self._clock, self._post, self._box.index_of,
            Hooks(
                held=self._opened.held,
                stop=self._stop,
                start=self._start,
                apply=lambda args: answer(self._live, args),
                change=lambda args: self._live.change(args),
                give=lambda values, dry_run: self._live.give(values, dry_run=dry_run),
                select=lambda names: self._live.select(names),
                variables=lambda: self._opened.file.vars,
                taken=self._loop.taken,
                written=self._written,
                clients=lambda: self._serving.clients,
            ),
        )  # fmt: skip

        async def handle(request: Request) -> Any:
            self._quiet.asked(request.op)
            try:
                return await requests.handle(request)
            finally:
                self._quiet.taken(request.op)

        return Serving(
            self._opened.state.path,
            self._opened.lock,
            view,
            handle,
            deck=self._deck.settings.name,
            file=path,
            mode=self._mode,
            note=self._note,
            on_leave=self._left,
        )

    # -- the run ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        *,
        takes: Sequence[str] | None,
        status_period_s: float,
        purpose: Purpose = "look",
    ) -> int:
        """Start or continue a run and see it through; with *takes* None look at the deck (`TakeUp.begin`). Returns the
        exit code."""
        self._asyncio.set_exception_handler(lambda _, context: self._failed(context))
        settle()
        try:
            self._sampler.start()
            if self._deck.settings.disk_mib is not None:
                self._disks.start()
            self._live.start()
            if purpose in ASKED_ONLY:
                self._quiet.begin(notes_only=purpose == "note")
            self._notices.begin()
            self._state.begin()
            self._take_up().begin(takes, purpose)
            if self._code is not None:
                self._code.cover()
            await self._serving.start()
            if status_period_s:
                self._tell_status(status_period_s)
            await self._ending.wait()
        finally:
            self._close()
        # What the writer's thread had to say comes before the end of the run, and answers to what clients asked for.
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        code, why = self._ending.verdict()
        finished = self._reporter.ending(code, why)
        self._notices.show(finished)
        if not finished.ended and not self._ending.by_user:
            self._notices.stopped(why)
        await self._notices.finish(_LAST_NOTICES_S)
        if self._mode == "headless" or not self._deck.run.ended:
            self._reporter.show(finished)
        await self._serving.close(why or "nothing is left to run", code)
        self._opened.lock.release()
        return code

    def _take_up(self) -> TakeUp:
        probe = self._opened.probe
        if isinstance(probe, SimulatedProbe):
            probe.follow(tuple(self._opened.starts.values()), self._begun_as)
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

    def _arrived(self, item: Input) -> None:
        self._state.bar()
        if not self._state.moved:
            self._attempts.ends.arrived(item)

    def _begun_as(self, start: AttemptStarting) -> TaskSpec | None:
        task = self._deck.by_name.get(start.task)
        return None if task is None else task.begun_spec.on_card(start.card_mib)

    def _publish(self, facts: Sequence[Fact]) -> None:
        probe = self._opened.probe
        if isinstance(probe, SimulatedProbe):
            probe.follow(facts, self._begun_as)
        self._attempts.publish(facts)
        self._reporter.publish(facts)
        self._notices.publish(facts)
        self._serving.publish(facts)

    def _show(self, message: Message) -> None:
        self._out(message)
        self._serving.show(message)
        self._notices.show(message)

    def _seen(self, readings: tuple[GpuReading, ...]) -> None:
        self._lost.clear()
        lost = {reading.uuid: reading.lost for reading in readings if reading.lost}
        self._lost.update(lost)
        self._notices.lost(lost)
        self._attempts.histories.sampled(readings)
        self._following.sampled(readings)
        self._serving.sampled()

    def _after_turn(self) -> None:
        tidy()
        self._following.wake()
        self._reporter.settled()
        self._serving.turned()
        self._forecasts.renew()
        self._consider_end()

    def _left(self) -> None:
        """A client has gone."""
        self._quiet.left()
        self._ending.client_left()
        self._consider_end()

    def _consider_end(self) -> None:
        if self._ending.consider():
            self._idle.watch()

    async def _written(self) -> None:
        await self._loop.taken()
        await self._attempts.ends.all_written()

    def _stop(self, tasks: bool, now: bool, by: str) -> None:
        """A client ends the engine, with its tasks or without."""
        by = by or ("gpudeck stop --tasks" if tasks else "gpudeck stop")
        if not tasks:
            self._ending.leave(by)
            return
        if self._ending.over:
            raise EngineUnavailableError("the engine was just ending, and its tasks run on: ask again")
        self._ending.stop(by)
        self._post(Shutdown(now=now, by=by))

    def _start(self) -> Sequence[str]:
        """A client wants the deck as a whole to run. Returns the warnings of the opening."""
        self._quiet.stay()
        self._loop.act(take_up_new)
        return self._opened.warnings

    def _reloaded(self) -> None:
        """The deck has become another, with other tasks at other places."""
        self._box.cpus_each = cpus_each(self._opened)
        if needs_host_memory(self._deck):
            self._sampler.look_at_host()
        if self._deck.settings.disk_mib is not None:
            self._disks.start()
        self._reporter.know_gpus()
        if self._code is not None:
            self._code.cover()
        self._notices.renew()
        self._serving.renew()

    def _is_idle(self) -> bool:
        return not (self._ending.busy() or self._ending.over or self._deck.run.ended)

    def _why_idle(self) -> str:
        return "; ".join(why_waiting(self._deck, self._clock.now().boot_s))

    def _from_thread(self, call: Callable[[], None]) -> None:
        if not self._asyncio.is_closed():
            self._asyncio.call_soon_threadsafe(call)

    def _note(self, text: str, level: str = "warning") -> None:
        self._reporter.note(level, text)

    def _watched(self, text: str) -> None:
        """What the reading of logs has to say."""
        self._note(text)
        self._notices.watched(text)

    def _note_from_thread(self, text: str, level: str = "warning") -> None:
        self._from_thread(lambda: self._note(text, level))

    def _tell_status(self, period_s: float) -> None:
        def tick() -> None:
            self._reporter.status()
            self._tell_status(period_s)

        self._status_timer = self._asyncio.call_later(period_s, tick)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _failed(self, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and "socket" in context:
            self._serving.cannot_accept(error)
        elif isinstance(error, Exception):
            traceback.print_exception(error)  # at once: the end may fail for the same reason
            self._loop.stop()
            self._ending.fail(error)

    def _close(self) -> None:
        self._idle.stop()
        self._quiet.close()
        self._state.close()
        self._ending.close()
        if self._status_timer is not None:
            self._status_timer.cancel()
        self._loop.stop()
        self._sampler.stop()
        self._disks.stop()
        self._live.close()
        self._opened.journal.close()
        self._following.close()
        self._forecasts.close()
        self._attempts.histories.save()
        self._writer.close()
        self._attempts.close()
        if self._code is not None:
            self._code.close()
        self._launcher.close()
