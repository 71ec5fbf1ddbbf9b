"""One life of an engine in the simulated world: the real core, loop, attempts, take-up and recovery, on data."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from gpudeck.engine.attempts.attempts import Attempts
from gpudeck.engine.attempts.environment import Box
from gpudeck.engine.core.budget import spent_budget
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import AttemptEnded, Fact, StartRevoked
from gpudeck.engine.core.inputs import DevicesSampled, GpuReading, JournalState, ReachedPoint, Shutdown
from gpudeck.engine.core.inputs import Process as GpuProcess
from gpudeck.engine.core.phases import FINAL, NAMES
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.runs import take_up_new
from gpudeck.engine.core.spec import DeckFile
from gpudeck.engine.core.step import Core
from gpudeck.engine.errors import EngineUnavailableError
from gpudeck.engine.loop import Loop
from gpudeck.engine.ports import GpuInfo, Inventory
from gpudeck.engine.protocol.wire import Request
from tests.inside.sim import (
    ASKED_ONLY,
    BoxGpus,
    DeckView,
    Ending,
    Hooks,
    LiveFile,
    Loaded,
    Mode,
    Past,
    Purpose,
    QuietStart,
    Reporter,
    Requests,
    RunOptions,
    Serving,
    TakeUp,
    answer,
    check_fit,
    choose,
    decode,
    encode,
    handover,
    loading,
    unsettled,
)
from tests.rigs.invariants import violations
from tests.sim.box import LOSSES, Behaviour, Disk, Process, Simulated
from tests.sim.journal import SimJournal
from tests.sim.launcher import SimLauncher
from tests.sim.loop import SimLoop
from tests.sim.plan import ROOM_MIB
from tests.sim.promises import Broken
from tests.sim.replies import changes
from tests.sim.taskfiles import SimBackground
from tests.sim.wire import SimConnection, SimLock

CARD_MIB = 24_000
_SAMPLE_S = 10.0
_CORES = 4
_DRAFT_S = 1.0
"""So long an edit is worked out at most."""
_LAST_TURNS = 4
"""As an engine's last, see `engine.py`."""


class _Cards(BoxGpus):
    cores = _CORES


_NONE = RunOptions()


@dataclass(frozen=True)
class How:
    """An engine is started."""

    mode: Mode = "detached"
    takes: Sequence[str] | None = None
    """See `TakeUp.begin`, the next one too."""
    purpose: Purpose = "look"
    given: RunOptions = _NONE


HEADLESS = How("headless", ("failed", "changed", "stale"), "headless")
ON_ALL_GPUS = replace(HEADLESS, given=RunOptions(gpus="all"))


def load(box: Simulated, deck: str, how: How, folder: str, path: str) -> Loaded:
    """A deck as a new engine finds it. Raises DeckError."""
    cards = Inventory(tuple(GpuInfo(uuid, place, "SIM", CARD_MIB) for place, uuid in enumerate(box.gpus)))
    state: Any = SimpleNamespace(path=state_folder(folder, deck), former_log_dirs=lambda *_: ())
    facts = list(box.disks.setdefault(deck, Disk()).facts)
    past = Past(state, facts, recorded(facts))
    source: Any = loading.as_taken(past, how.purpose) or path
    loaded = loading.load(
        source, how.given, {}, past=past, purpose=how.purpose, environment={},
        gpus_of=lambda settings, _: _Cards(cards, choose(cards, settings.gpus)),
    )  # fmt: skip
    check_fit(loaded.file, loaded.gpus.fitting())
    return loaded


class SimEngine:
    """Holds one deck until it has run to its end, or is killed."""

    def __init__(
        self,
        box: Simulated,
        deck: str,
        loaded: Loaded,
        how: How,
        behaviour: Callable[[str, int], Behaviour],
        refusals: Callable[[], str],
        failed: Callable[[BaseException], None],
        acknowledged: Callable[[Fact], None],
    ) -> None:
        """*failed* is told of exceptions, *acknowledged* of what observers are told and is on disk."""
        self.box, self.name, self._loaded, self._how = box, deck, loaded, how
        self.acknowledged = acknowledged
        self.since = box.now
        self.opened: Any = SimpleNamespace(
            file=loaded.file, state=loaded.past.state, options=encode(loaded.options), warnings=[], environment={},
            gpus=loaded.gpus, chosen_by=len(loaded.chosen_by),
        )  # fmt: skip
        self.state: str = self.opened.state.path
        self.files = [(box.now, loaded.file)]
        """What it has taken up, and since when."""
        self.acts = 0
        """Requests that change something, and edits taken up, so far;"""
        self.acting = 0
        """those of them that are under way."""
        self.crowded = False
        """Two of them were, at once."""
        self.deaf_since = 0.0
        """When somebody removed its socket;"""
        self.stopped_at: float | None = None
        """when a client ended it, with its tasks."""
        self.applying = 0
        """Of these, somebody has asked to apply the file."""
        self.loop = SimLoop(lambda: box.now, failed)
        self.opened.journal = self.journal = SimJournal(box, box.disks[deck])
        self.log_dir = loaded.file.settings.log_dir
        self._behaviour = behaviour
        self._refusals = refusals
        self.deck = self._restored()
        self.loop.within(self._begin)

    # -- opening

    def replayed(self) -> Deck:
        """What the journal says, without the logs."""
        facts = list(self.journal.load())
        past = replace(self._loaded.past, facts=facts, told=recorded(facts))
        file = replace(self.file, settings=replace(self.file.settings, log_dir=f"{self.state}/none"))
        now = replace(self._loaded, past=past, options=decode(self.opened.options), gpus=self.opened.gpus, file=file)
        return loading.restored(now)[0]

    def _restored(self) -> Deck:
        opened = self.opened
        opened.deck, opened.starts, opened.logs = loading.restored(self._loaded)
        for gpu in opened.deck.present_gpus.values():
            gpu.forget_neighbours()
        opened.same_boot = opened.deck.run.boot_id in ("", self.box.boot)
        opened.unsettled = unsettled(self._left(), self._loaded.past.told)
        handover.keep_begun(self.state, opened.deck)
        handover.keep_file(self.state, self.file)
        return opened.deck

    def _left(self) -> Collection[str]:
        """Tokens of attempts of which records stand."""
        return [each.token for each in self.box.processes.values() if each.deck == self.name and each.record]

    def _launcher(self) -> Any:
        return SimLauncher(self.box, self.name, self._arrived, self.loop.call_soon, self._behaviour, self._refusals)

    @property
    def file(self) -> DeckFile:
        """As the deck has it."""
        return self.opened.file

    def _begin(self) -> None:
        box, deck = self.box, self.deck
        self.launcher = self._launcher()
        self._writer: Any = _Writer(self.loop)
        aside = SimBackground(self.loop, box)
        self.attempts = Attempts(
            deck,
            self.launcher,
            self.opened.logs,
            Box(
                environment={},
                visible=",".join,
                index_of={uuid: place for place, uuid in enumerate(box.gpus)},
                cpus_each=1,
                cores=_CORES,
                now=lambda: box.now,
            ),
            self._writer,
            self._post,
            readers=aside,
            checks=aside,
            starters=aside,
        )
        self._reporter = Reporter(
            deck, self.attempts, SimpleNamespace(now=box.instant), lambda message: self._serving.show(message), cwd="/"
        )
        self._loop = Loop(
            Core(deck),
            clock=SimpleNamespace(now=box.instant),
            journal=self.journal,
            do=self.attempts.do,
            publish=self._publish,
            alarm=lambda _, ring: _Alarm(self.loop, ring),
        )
        self._loop.after_turn = self._after_turn
        self._loop.foresee = self.attempts.starter.foresee
        self.attempts.ends.behind = lambda: self._loop.behind
        self._writer.on_ended = self.attempts.ends.written
        self.journal.on_disk = lambda full, why: self.loop.call_soon(self._on_disk, full, why)
        self._ending = Ending(
            deck, self._how.mode, SimpleNamespace(now=box.instant), clients=lambda: self._serving.clients
        )
        self._quiet = QuietStart(deck, self._loop.wake, self._ending.leave, clients=lambda: self._serving.clients)
        self._serving = self._serve()
        self._live = LiveFile(
            self.opened, self._loop, note=self._note, changed=self._serving.turned, applied=self._swapped,
            headless=self._how.mode == "headless",
        )  # fmt: skip
        self.loop.create_task(self._run())

    def _serve(self) -> Serving:
        deck, clock = self.deck, SimpleNamespace(now=self.box.instant)
        view = DeckView(
            deck, clock, file=self.file.path, infos={gpu.uuid: gpu for gpu in self.opened.gpus.inventory.gpus},
            file_plan=lambda: self._live.summary, file_problem=lambda: self._live.problem,
        )  # fmt: skip
        requests = Requests(
            deck, view, self.attempts, clock, self._post,
            {gpu.uuid: gpu.index for gpu in self.opened.gpus.inventory.gpus},
            Hooks(
                held="",
                stop=self._stop,
                start=self._start,
                apply=lambda args: answer(self._live, args),
                change=lambda args: self._live.change(args),
                give=lambda values, dry_run: self._live.give(values, dry_run=dry_run),
                select=lambda names: self._live.select(names),
                variables=dict[str, str],
                taken=self._loop.taken,
                written=self._loop.taken,
                clients=lambda: 1,
            ),
        )  # fmt: skip

        async def handle(request: Request) -> Any:
            acts = changes(request)
            self.acts += acts
            self.acting += acts
            self.crowded |= self.acting > 1
            asks = request.op in ("apply", "change")
            self.applying += asks
            self._quiet.asked(request.op)
            try:
                return await requests.handle(request)
            finally:
                self.applying -= asks
                self.acting -= acts
                self._quiet.taken(request.op)

        self.lock = SimLock(pid=1)
        return Serving(
            self.state, self.lock, view, handle, deck=self.name, file=self.file.path, mode=self._how.mode,
            note=self._note, on_leave=self._client_left,
        )  # fmt: skip

    async def _run(self) -> None:
        """As `Engine.run` does it."""
        self._sample()
        self._live.start()
        if self._how.purpose in ASKED_ONLY:
            self._quiet.begin(notes_only=self._how.purpose == "note")
        TakeUp(
            self.opened,
            loop=self._loop,
            launcher=self.launcher,
            attempts=self.attempts,
            reporter=self._reporter,
            clock=SimpleNamespace(now=self.box.instant),
        ).begin(self._how.takes, self._how.purpose)
        await self._serving.start()
        await self._ending.wait()
        self._close()
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        code, why = self._ending.verdict()
        await self._serving.close(why or "nothing is left to run", code)
        self.loop.call_soon(self._over)

    # -- life

    def _post(self, item: Any) -> None:
        self._loop.post(item)

    def _arrived(self, item: Any) -> None:
        self.attempts.ends.arrived(item)

    def _publish(self, facts: Sequence[Fact]) -> None:
        self.attempts.publish(facts)
        self._reporter.publish(facts)
        self._serving.publish(facts)
        if not self._loop.behind:
            for fact in facts:
                self.acknowledged(fact)

    def _on_disk(self, full: bool, why: str) -> None:
        self._post(JournalState(not full, why))
        if not full:
            self._loop.behind = False
            self.attempts.ends.caught_up()

    def _after_turn(self) -> None:
        self._serving.turned()
        found = violations(self.deck)
        assert not found, found
        self._ending.consider()

    def _sample(self) -> None:
        """What the cards read, from time to time, unless the driver hangs."""
        if self.box.now >= self.box.hung_until:
            readings = [self._reading(uuid) for uuid in self.box.gpus]
            self._post(DevicesSampled(tuple(readings), claimed=self._claimed()))
            self._serving.sampled()
        if self.deck.settings.disk_mib is not None:
            self._post(DevicesSampled((), disk_free_mib=ROOM_MIB * (self.box.no_room is None)))
        for each in self.box.alive():
            if each.deck == self.name and self.box.now - each.began >= each.behaviour.runs_s / 2:
                loss = crc32(each.task.encode()) % 5  # some are equal
                self._post(ReachedPoint(each.token, "loss:min", 0.5, float(loss) if loss else None))
        self.loop.call_later(_SAMPLE_S, self._sample)

    def _reading(self, uuid: str) -> GpuReading:
        if uuid in self.box.lost:
            return GpuReading(uuid, self.box.now, lost=LOSSES[int(self.box.lost[uuid]) % len(LOSSES)])
        there = [each for each in self.box.alive() if uuid in each.gpus]
        used = tuple(GpuProcess(each.pid, 1000, token=each.token, user="me") for each in there)
        others = (GpuProcess(7, 9000, user="bob"),) if uuid in self.box.foreign else ()
        return GpuReading(
            uuid, self.box.now, CARD_MIB, 1000 * len(used) + 9000 * len(others), processes=(*used, *others)
        )

    def _claimed(self) -> dict[str, str]:
        used = self.box.used(self.name)
        self.box.claims.look(self.name, used)
        return self.box.claims.others(self.name, self.box.gpus, used)

    # -- clients

    @property
    def deaf_s(self) -> float:
        """How long nobody has been able to reach it."""
        return self.box.now - max(self.since, self.deaf_since)

    def connect(self) -> SimConnection | None:
        """As clients do: where the lock file says that it listens."""
        listener = self.box.sockets.get(self.lock.address)
        return None if listener is None else listener.connect()

    def _client_left(self) -> None:
        self._quiet.left()
        self._ending.client_left()
        self._ending.consider()

    def _stop(self, tasks: bool, now: bool, by: str) -> None:
        by = by or "a command"
        if not tasks:
            self._ending.leave(by)
            return
        if self._ending.over:
            raise EngineUnavailableError("the engine was just ending, and its tasks run on: ask again")
        self._ending.stop(by)
        self.stopped_at = self.stopped_at or self.box.now
        self._post(Shutdown(now=now, by=by))

    def _start(self) -> Sequence[str]:
        self._quiet.stay()
        self._loop.act(take_up_new)
        return ()

    @property
    def reloads(self) -> bool:
        """It takes edits up by itself."""
        return self._live.mode == "auto"

    def _note(self, text: str, level: str = "warning") -> None:
        self.box.say(f"{self.name} notes: {text}")
        if level == "error":
            self.box.broken_promise = Broken(text)

    def _swapped(self) -> None:
        before, now = self.files[-1][1], self.file
        self.acts += 1
        if not self.applying:
            self._unasked(before, now)
        if now.selected is not None:  # what runs, as the edit is worked out, belongs to the run, whatever is selected
            ran = {task.name for task in self.deck.active.values()}
            facts = self.box.disks[self.name].facts
            since = max(self.box.now - _DRAFT_S, self.files[0][0])  # not under an engine before this one
            ended = {fact.task for fact in facts if isinstance(fact, AttemptEnded) and fact.at > since}
            ended |= {fact.task for fact in facts if isinstance(fact, StartRevoked) and fact.until > since}
            taken = {task.name for task in self.deck.tasks if task.selected}  # the draft has seen them run, or start
            ran |= taken & ended
            now = replace(now, selected=now.selected | ran)
        self.files.append((self.box.now, now))
        self._serving.renew()
        self.box.say(f"{self.name} has taken up its file")

    def _unasked(self, before: DeckFile, now: DeckFile) -> None:
        """Nobody has said so: no task of the run goes, and none that runs becomes another."""
        specs = {spec.name: spec.fingerprint for spec in now.tasks}
        for spec in before.tasks:
            task = self.deck.by_name.get(spec.name)
            runs = task is not None and task.attempt() is not None
            left_out = before.selected is not None and spec.name not in before.selected
            if (spec.name not in specs and not left_out) or (runs and specs.get(spec.name) != spec.fingerprint):
                words = f"{spec.name} of {self.name} was changed or removed, and nobody had asked for that"
                self.box.broken_promise = Broken(words)

    def heard(self, process: Process) -> None:
        if not self.loop.dead:
            self.launcher.told(process)

    # -- the end

    def kill(self) -> None:
        """kill -9."""
        self.box.say(f"the engine of {self.name} is killed")
        self.loop.drop()
        self.journal.kill()
        self.box.let_go(self.name)

    def _close(self) -> None:
        self._quiet.close()
        self._ending.close()
        self._loop.stop()
        self._live.close()
        self.journal.close()
        self.attempts.close()
        self.launcher.close()

    def _over(self) -> None:
        """It has ended by itself."""
        deck, rest = self.deck, [task for task in self.deck.tasks if not isinstance(task.phase, FINAL)]
        asked = self._ending.by_user or deck.paused or deck.run.halted or any(task.held for task in rest)
        asked = asked or spent_budget(deck, self.box.now)
        if not (deck.run.ended or asked or any(gpu.mark == "drain" for gpu in deck.gpus.values())):
            told = ", ".join(f"{task.name} {NAMES[type(task.phase)]}" for task in rest)
            raise Broken(f"the engine of {self.name} ends, nothing is in the way, and left are {told}")
        self.loop.drop()
        self.box.let_go(self.name)


class _Alarm:
    def __init__(self, loop: SimLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: Any = None

    def set(self, at: float | None) -> None:
        self.close()
        if at is not None:
            self._timer = self._loop.call_at(max(at, self._loop.time()), self._ring)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Writer:
    """Of attempt-N.json: what was written is told a turn later."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.on_ended: Callable[[Sequence[str]], None] = lambda _: None

    def begin(self, path: str, header: object, links: Iterable[object] = ()) -> None:
        pass

    adopt = begin

    def end(self, path: str, end: object) -> None:  # noqa: ARG002
        self._loop.call_soon(lambda: self.on_ended([path]))

    def keep(self, path: str, raw: bytes) -> None:
        pass

    placed = keep


def state_folder(folder: str, deck: str) -> str:
    """Where the state of a deck lies."""
    path = os.path.join(folder, f"{deck}.state")
    os.makedirs(path, exist_ok=True)
    return path


def cleared(folder: str) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder
