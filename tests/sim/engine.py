"""One life of an engine in the simulated world: the real core, loop, attempts, take-up and recovery, on data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from gpudeck.engine.attempt.attempts import Attempts
from gpudeck.engine.attempt.box import Box
from gpudeck.engine.core.build import build
from gpudeck.engine.core.check import violations
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import AttemptStarting, Fact
from gpudeck.engine.core.inputs import DevicesSampled, GpuReading, JournalState, Verb
from gpudeck.engine.core.inputs import Process as GpuProcess
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.replay import replay
from gpudeck.engine.core.spec import DeckFile
from gpudeck.engine.core.step import Core
from gpudeck.engine.errors import DeckError, EngineEndingError
from gpudeck.engine.loop import Loop
from gpudeck.engine.ports import GpuInfo
from tests.inside.sim import (
    Applier,
    Choices,
    DeckView,
    LogFolder,
    Pictures,
    Reading,
    Reporter,
    TakeUp,
    core_gpus,
    kept,
    take_back,
    taken,
    unsettled,
)
from tests.sim.box import Behaviour, Disk, Process, Simulated
from tests.sim.client import SimClient
from tests.sim.journal import SimJournal
from tests.sim.launcher import SimLauncher
from tests.sim.loop import SimLoop

CARD_MIB = 24_000
_SAMPLE_S = 10.0
_CORES = 4
_ASIDE_S = (0.0, 0.01, 0.3)
_READ_S = (0.0, 0.1, 20.0)
"""Between two times that a client reads."""


@dataclass(frozen=True)
class _Cards:
    """What an edit needs of `BoxGpus`."""

    chosen: tuple[GpuInfo, ...]
    outside: tuple[GpuInfo, ...] = ()
    cores: int = _CORES
    simulated: bool = False


class SimEngine:
    """Holds one deck until it has run to its end, or is killed."""

    def __init__(
        self,
        box: Simulated,
        deck: str,
        file: DeckFile,
        before: DeckFile | None,
        takes: Sequence[str] | None,
        folder: str,
        behaviour: Callable[[str, int], Behaviour],
        refusals: Callable[[], str],
        failed: Callable[[BaseException], None],
        acknowledged: Callable[[Fact], None],
    ) -> None:
        """*before*: the file as the deck took it last; *takes*: see `TakeUp.begin`. *failed* is told of exceptions,
        *acknowledged* of what observers are told and is on disk."""
        self.box, self.name, self._before, self._takes = box, deck, before, takes
        self.acknowledged = acknowledged
        self.since = box.now
        self._state = state_folder(folder, deck)
        self.opened: Any = SimpleNamespace(file=file, state=SimpleNamespace(path=self._state), options="", warnings=[])
        self.files = [(box.now, file)]
        """What it has taken up, and since when."""
        self.clients: list[SimClient] = []
        self.loop = SimLoop(lambda: box.now, failed)
        self.journal = SimJournal(box, box.disks.setdefault(deck, Disk()))
        self.over = False
        self._applying = False
        self.answered: list[tuple[str, bool]] = []
        """Verbs, and whether each was acknowledged."""
        self.log_dir = os.path.join(folder, deck)
        self._behaviour = behaviour
        self._refusals = refusals
        self.deck = self._restored()
        self.loop.within(self._begin)

    # -- opening

    def fresh(self) -> Deck:
        cards = core_gpus(self.file.settings, self._cards())
        return build(self.file, gpus=cards, cores=_CORES, on_cpu=not cards)

    def _cards(self) -> tuple[GpuInfo, ...]:
        return tuple(GpuInfo(uuid, place, "SIM", CARD_MIB) for place, uuid in enumerate(self.box.gpus))

    def replayed(self) -> tuple[Deck, Mapping[str, AttemptStarting]]:
        """What the journal says: a deck, and the starts of attempts that have not ended."""
        facts = list(self.journal.load())
        deck, before, told = self.fresh(), self._before or self.file, recorded(facts)
        lasting = kept.load(self._state, told.lasting_tokens)
        take_back(deck, lasting, told, lambda: {spec.name: spec for spec in before.tasks})
        return deck, replay(deck, facts)

    def _restored(self) -> Deck:
        deck, starts = self.replayed()
        for gpu in deck.present_gpus.values():
            gpu.forget_neighbours()
        self._logs = LogFolder(self.log_dir, (spec.name for spec in self.file.tasks))
        for task in deck.tasks:
            if not task.attempts:
                task.attempts = max(task.attempts, self._logs.highest(task.name))
        self._told = recorded(self.journal.load())
        left = self._left()
        self.opened.deck, self.opened.starts, self.opened.logs = deck, starts, self._logs
        self.opened.unsettled = unsettled(left, self._told)
        self.opened.same_boot = deck.run.boot_id in ("", self.box.boot)
        self.opened.gpus = _Cards(self._cards())
        self.opened.journal = self.journal
        kept.keep_gone(self._state, deck)
        taken.keep(self._state, self.file)
        return deck

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
        aside = _AtOnce(self.loop)
        self.attempts = Attempts(
            deck,
            self.launcher,
            self._logs,
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
        self._reporter = Reporter(deck, self.attempts, SimpleNamespace(now=box.instant), lambda _: None, cwd="/")
        self._loop = Loop(
            Core(deck),
            clock=SimpleNamespace(now=box.instant),
            journal=self.journal,
            do=self.attempts.do,
            publish=self._publish,
            alarm=lambda _, ring: _Alarm(self.loop, ring),
        )
        self._loop.prepare, self._loop.drop = self.attempts.prepare, self.attempts.drop
        self._loop.after_turn = self._after_turn
        completing = self.attempts.completing
        completing.behind = lambda: self._loop.behind
        self._writer.on_ended = completing.written
        self.journal.on_disk = lambda full, why: self.loop.call_soon(self._on_disk, full, why)
        TakeUp(
            self.opened,
            loop=self._loop,
            launcher=self.launcher,
            attempts=self.attempts,
            reporter=self._reporter,
            clock=SimpleNamespace(now=box.instant),
        ).begin(self._takes)
        self._applier = Applier(self.opened, self._loop, self._aside)
        infos = {gpu.uuid: gpu for gpu in self._cards()}
        self._view = DeckView(deck, SimpleNamespace(now=box.instant), file=self.file.path, infos=infos)
        self._clients: list[Any] = []
        self._pictures = Pictures(self._view, self._view.changed, self._clients)
        self._sample()

    # -- life

    def _post(self, item: Any) -> None:
        self._loop.post(item)

    def _arrived(self, item: Any) -> None:
        self.attempts.outcomes.arrived(item)

    def _publish(self, facts: Sequence[Fact]) -> None:
        self.attempts.publish(facts)
        self._reporter.publish(facts)
        self._view.note(facts)
        self._pictures.touch()
        if not self._loop.behind:
            for fact in facts:
                self.acknowledged(fact)

    def _on_disk(self, full: bool, why: str) -> None:
        self._post(JournalState(not full, why))
        if not full:
            self._loop.behind = False
            self.attempts.completing.caught_up()

    def _after_turn(self) -> None:
        self._pictures.touch()
        found = violations(self.deck)
        assert not found, found
        if self.deck.run.ended and not self.deck.active and not self.over:
            self.over = True
            self.loop.call_later(0.01, self._close)

    def _sample(self) -> None:
        """What the cards read, from time to time."""
        readings = [self._reading(uuid) for uuid in self.box.gpus]
        self._post(DevicesSampled(tuple(readings), claimed=self._claimed()))
        self._pictures.touch(gpus=True)
        self.loop.call_later(_SAMPLE_S, self._sample)

    def _reading(self, uuid: str) -> GpuReading:
        if uuid in self.box.lost:
            return GpuReading(uuid, self.box.now, lost="GPU is lost")
        there = [each for each in self.box.alive() if uuid in each.gpus]
        used = tuple(GpuProcess(each.pid, 1000, token=each.token, user="me") for each in there)
        others = (GpuProcess(7, 9000, user="bob"),) if uuid in self.box.foreign else ()
        return GpuReading(
            uuid, self.box.now, CARD_MIB, 1000 * len(used) + 9000 * len(others), processes=(*used, *others)
        )

    def _claimed(self) -> dict[str, str]:
        return {uuid: deck for uuid, deck in self.box.claims.items() if deck != self.name}

    def ask(self, verb: Verb) -> None:
        """A client's request; answered once it is on disk."""
        place = len(self.answered)
        self.answered.append((f"{verb.verb} {','.join(verb.tasks)}", False))

        async def request() -> None:
            self._loop.post(verb)
            try:
                await self._loop.taken()
            except EngineEndingError:
                return
            self.answered[place] = (self.answered[place][0], True)

        self.loop.within(lambda: self.loop.create_task(request()))

    def watched(self, seconds: float) -> None:
        """Somebody watches for so long."""

        def begin() -> None:
            client = SimClient(self, self._pictures)
            self.clients.append(client)
            self._clients.append(client.end)
            self._pictures.show(client.end)
            self._read(client)
            self.loop.call_later(seconds, leave, client)

        def leave(client: SimClient) -> None:
            self.clients.remove(client)
            self._clients.remove(client.end)

        self.loop.within(begin)

    def _read(self, client: SimClient) -> None:
        if client in self.clients:
            client.read()
            self.loop.call_later(self.box.random.choice(_READ_S), self._read, client)

    def edited(self, file: DeckFile, choices: Choices) -> None:
        """Somebody has edited the task file and asks to apply it; where that cannot be the deck goes on as it was."""

        async def request() -> None:
            if self._applying:
                return
            self._applying = True
            try:
                await self._applier.apply(Reading(file, file.text, self._cards(), ()), choices, self._swapped)
            except DeckError as error:
                self.box.say(f"{self.name} applies nothing: {error}")
            finally:
                self._applying = False

        self.loop.within(lambda: self.loop.create_task(request()))

    def _swapped(self) -> None:
        self.files.append((self.box.now, self.file))
        self._pictures.renew()
        self.box.say(f"{self.name} has taken up its file")

    async def _aside(self, work: Callable[[], Any]) -> Any:
        """`Worker`: what is done in a thread is done at some later moment."""
        done = self.loop.create_future()
        self.loop.call_later(self.box.random.choice(_ASIDE_S), done.set_result, None)
        await done
        return work()

    def heard(self, process: Process) -> None:
        if not self.loop.dead:
            self.launcher.told(process)

    # -- the end

    def kill(self) -> None:
        """kill -9."""
        self.box.say(f"the engine of {self.name} is killed")
        self.loop.drop()
        self.journal.kill()
        self._let_go()

    def _close(self) -> None:
        """As an engine ends by itself."""
        self._loop.stop()
        self.journal.close()
        self.attempts.close()
        self.launcher.close()
        self.loop.drop()
        self._let_go()

    def _let_go(self) -> None:
        """Claims of what no process holds go with the engine."""
        used = {uuid for each in self.box.alive() if each.deck == self.name for uuid in each.gpus}
        for uuid in [uuid for uuid, deck in self.box.claims.items() if deck == self.name and uuid not in used]:
            del self.box.claims[uuid]


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


class _AtOnce:
    """`ports.Aside` whose work is done in another turn."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], **_: float) -> None:
        self._loop.call_soon(lambda: done(work()))

    def close(self) -> None:
        pass


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
