"""Runs a plan: engines, their clients and what goes wrong, one piece at a time; checks what must always hold."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from unittest import mock

from gpudeck.engine.core.budget import spent_budget
from gpudeck.engine.core.events import AttemptEnded, Fact
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.phases import FINAL, NAMES, Backoff, Blocked, Queued, Waiting
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.spec import Budget, DeckFile
from gpudeck.engine.errors import DeckError, UsageError
from tests.inside.sim import host
from tests.sim import promises
from tests.sim.box import Process, Simulated
from tests.sim.client import SimClient, Wish, wishes
from tests.sim.engine import HEADLESS, ON_ALL_GPUS, How, SimEngine, cleared, load
from tests.sim.plan import Plan, edited, half_saved, with_another
from tests.sim.promises import Broken
from tests.sim.taskfiles import TaskFiles
from tests.sim.wire import listening

PIECES = 200_000
"""More of them, and a run will never end."""
LATEST_S = 3_000.0
"""Of the world's time without faults, in which all that can end ends;"""
LATEST_RESTED_S = 40_000.0
"""and where a GPU rests, which longer and longer pauses between probes end."""
_STOPS_S = 80.0
"""An engine that was to end with its tasks does so, but for what `Simulated.late_s` is there for."""


_ALIKE = {"waiting", "queued", "blocked", "backoff"}
"""Between these gates and the clock decide: no fact says so."""


class World:
    """One run of one plan."""

    box_kind: type[Simulated] = Simulated
    engine_kind: type[SimEngine] = SimEngine
    looked_at = 0.02
    """Share of moments at which the journal is compared with what engines know."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan = plan
        self.folder = cleared(folder)
        self.box = self.box_kind(plan.seed, plan.gpus)
        self.box.broken = plan.broken
        self.box.tell = self._told
        self.box.begun = self._begun
        self.random = Random(plan.seed + 1)
        self.task_files = TaskFiles(self.box, self.folder)
        self.files = {deck: self.task_files.write(deck, file) for deck, file in plan.decks.items()}
        """As users want them now."""
        self.spoilt: set[str] = set()
        """Decks whose task file is not what users want, for a while."""
        self.specs = {deck: {spec.name: spec for spec in file.tasks} for deck, file in plan.decks.items()}
        """Every task that a deck ever had."""
        self.edited = {deck: set[str]() for deck in plan.decks}
        self.engines: dict[str, SimEngine] = {}
        self.clients: list[SimClient] = []
        self._undoable: dict[str, list[str]] = {deck: [] for deck in plan.decks}
        self.acknowledged: dict[tuple[str, str, int], int | None] = {}
        """Exit codes that observers were told of and that were on disk."""
        self.faults: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        """What engines were in the middle of; see `marks`."""
        self.refuse = 0
        self.elapsed = 0.0
        self._calm_at: float | None = None
        self._took: dict[str, str] = {}
        """By deck, the text of the file that its last engine had, where that is known."""
        self._known: dict[str, tuple[int, bool]] = {}
        """By deck, of a journal of how many facts it is known whether its run has ended."""
        self._asked_next: dict[tuple[str, str], float] = {}
        self._gathered: dict[tuple[str, str], float] = {}
        """When each deck last kept each GPU for a task of several."""
        """Since when a task of a deck that is next could have a GPU, did others leave it."""
        self._calms: Counter[str] = Counter()
        """How often each deck that was not done has been taken up, without faults."""

    # -- a run

    def run(self) -> None:
        with _seeded(self.random, self.box), listening(self.box), self.task_files.served():
            self._begin()
            for piece in range(PIECES):
                if piece == PIECES // 2:  # engines of a large deck may be killed in each start, and time stands still
                    self.elapsed = max(self.elapsed, self.plan.faults_end)
                if not self._piece():
                    break
            else:
                raise Broken("the run does not come to an end")
            self._check_end()

    def _begin(self) -> None:
        for deck in self.plan.decks:
            self.start(deck)

    def close(self) -> None:
        """Nothing of it is left, on disk or waiting."""
        for engine in self.engines.values():
            engine.loop.drop()
        shutil.rmtree(self.folder)

    def _piece(self) -> bool:
        """One piece of one engine, or the next event. False: all is over."""
        ready = [engine for engine in self.engines.values() if engine.loop.ready]
        if ready:
            engine = ready[0] if len(ready) == 1 else self.random.choice(ready)
            if self._faults and self._goes_wrong(engine):
                return True
            engine.loop.run_one()
            if self.box.broken_promise is not None:
                raise self.box.broken_promise
            if engine.loop.dead:  # it has ended by itself
                self._ended(engine)
            return True
        if not self._faults:
            if not self._sound():
                return False
            if any(engine.loop.ready for engine in self.engines.values()):
                return True
        times = [engine.loop.next_timer for engine in self.engines.values()]
        known = [at for at in (*times, self.box.next_event) if at is not None]
        if not known:
            self.elapsed = self.plan.faults_end
            return True
        at, before = min(known), self.box.now
        if self.box.next_event is not None and self.box.next_event <= at:
            self.box.happen()
        else:
            self.box.now = max(at, self.box.now)
        self.elapsed += max(0.0, self.box.now - before)
        if self.elapsed > self.plan.faults_end + (LATEST_RESTED_S if self.seen["rests"] else LATEST_S):
            self._stuck()
        for engine in self.engines.values():
            engine.loop.ripen()
        self._check()
        return True

    @property
    def _faults(self) -> bool:
        return self.elapsed < self.plan.faults_end

    def _sound(self) -> bool:
        """Nothing goes wrong any more: disks have space, files are whole, each deck that is not done has an engine.
        False: all are done."""
        if self._calm_at is None:
            self._calm_at = self.box.now
            self.box.broken, self.box.hung_until = "", min(self.box.hung_until, self.box.now)
            for deck in self.plan.decks:
                self._free(deck)
                self._mend(deck)
        elif self.engines:
            return True
        rest = [deck for deck in self.plan.decks if deck not in self.engines and self._unfinished(deck)]
        if not rest:
            return bool(self.engines)
        for deck in rest:
            self._calms[deck] += 1
            if self._calms[deck] > 2:
                raise Broken(f"the run of {deck} does not end although users let go of all that they held")
            self.start(deck, How() if self._calms[deck] == 2 else None)
            if self._calms[deck] == 2:
                self._let_go_of_all(deck)
        return True

    def _let_go_of_all(self, deck: str) -> None:
        """Users hold nothing any more."""
        self.elapsed = self.plan.faults_end
        for client in self.clients:
            if client.deck == deck:
                client.leave()
        names = tuple(spec.name for spec in self.files[deck].tasks)
        what = [Wish("unpause"), Wish("release", {"tasks": names})]
        if (settings := self.files[deck].settings).budget != Budget():
            self._save(deck, replace(self.files[deck], settings=replace(settings, budget=Budget())))
            what.insert(0, Wish("apply", _choices(self.random)))
        for index in range(len(self.box.gpus)):  # one by one: a deck that has only some refuses the others
            what.append(Wish("gpu", {"verb": "enable", "gpus": (str(index),)}))
        self._come(deck, what, last=True)

    def _unfinished(self, deck: str) -> bool:
        facts = self.box.disks[deck].facts
        if self._known.get(deck, (-1, False))[0] != len(facts):
            self._known[deck] = len(facts), recorded(facts).unfinished
        return self._known[deck][1]

    # -- engines

    def start(self, deck: str, how: How | None = None) -> None:
        """Somebody types `gpudeck`; where an engine has the lock, or the task file is broken, nothing comes of it."""
        if deck in self.engines:
            return
        self._check_disk(deck)
        plan, runs = self.plan, deck in self.box.disks
        if runs and self._faults and self.random.random() < plan.edits:
            self._edit(deck)
        headless = not runs or self.random.random() < 0.5
        how = how or (HEADLESS if headless else How())
        try:
            loaded = load(self.box, deck, how, self.folder, self.task_files.path(deck))
        except DeckError as error:
            self.box.say(f"no engine of {deck} starts: {error}")
            self.seen["refused file"] += 1
            if isinstance(error, UsageError) and how is not HEADLESS:
                self.start(deck, HEADLESS)  # the run's selection means no task of the file any more
            elif "but the deck has only" in str(error) and how is not ON_ALL_GPUS:
                self.start(deck, ON_ALL_GPUS)  # the run was told to have fewer, with fewer tasks
            else:
                self.box.after(self.random.uniform(0, 50), lambda: self.start(deck))
            return
        self.box.say(f"an engine of {deck} starts, {how.mode} to {how.purpose}")
        engine = self.engine_kind(
            self.box,
            deck,
            loaded,
            how,
            lambda task, attempt: plan.behaviour(deck, task, attempt),
            self._refusal,
            self._failed,
            lambda fact: self._acknowledge(deck, fact),
        )
        self.engines[deck] = engine
        self.seen["kept file"] += loaded.file.text != self.files[deck].text
        self.seen["unsettled"] += bool(engine.opened.unsettled)
        promises.of_wishes(deck, engine.deck, self.box.disks[deck].facts)
        promises.of_options(deck, loaded, how.purpose, how.given)
        promises.of_edits(deck, loaded, how.purpose, self._took.get(deck, ""))

    def _edit(self, deck: str) -> None:
        self._save(deck, edited(self.random, self.files[deck]))

    def _add(self, deck: str) -> None:
        """`gpudeck add`: one more task at the end of the file, and nothing else of it is to be applied."""
        before = self.files[deck]
        self._save(deck, with_another(self.random, before))
        added = self.files[deck].tasks[-1].name
        self._come(deck, [Wish("apply", {"add": (added,)})])

    def _save(self, deck: str, new: DeckFile) -> None:
        before = self.files[deck]
        file = self.files[deck] = self.task_files.write(deck, new)
        self.spoilt.discard(deck)
        now = {spec.name: spec.fingerprint for spec in file.tasks}
        self.edited[deck] |= {spec.name for spec in before.tasks if now.get(spec.name) != spec.fingerprint}
        self.specs[deck] |= {spec.name: spec for spec in file.tasks}
        self.box.say(f"the file of {deck} has {len(file.tasks)} tasks, some others")

    def _spoil(self, deck: str) -> None:
        """The task file is not what somebody wants, and is mended later."""
        if self.random.random() < 0.4:
            half = self.task_files.write(deck, half_saved(self.random, self.files[deck]))
            self.edited[deck] |= {spec.name for spec in self.files[deck].tasks} - {spec.name for spec in half.tasks}
            how = f"has {len(half.tasks)} tasks, half saved"
        else:
            how = f"is {self.task_files.spoil(deck, self.random)}"
        self.box.say(f"the file of {deck} {how}")
        self.spoilt.add(deck)
        self.box.after(self.random.choice([0.1, 2.0, 30.0]), lambda: self._mend(deck))

    def _mend(self, deck: str) -> None:
        if deck in self.spoilt:
            self.spoilt.discard(deck)
            self.task_files.write(deck, self.files[deck])
            self.box.say(f"the file of {deck} is as it should be")

    def _ended(self, engine: SimEngine) -> None:
        del self.engines[engine.name]
        self._note(engine)
        self.seen["left held"] += any(task.held for task in engine.deck.tasks)
        self.box.say(f"the engine of {engine.name} has ended")
        if self._faults and self.random.random() < 0.5:
            self.box.after(self.random.uniform(0, 50), lambda: self.start(engine.name))

    def _kill(self, engine: SimEngine) -> None:
        self.seen["unwritten"] += not engine.journal.idle
        self._note(engine)
        engine.kill()
        del self.engines[engine.name]
        how = How(purpose="resume") if self.random.random() < 0.3 else None
        self.box.after(self.random.choice([0.0, 0.1, 3.0, 60.0]), lambda: self.start(engine.name, how))

    def _note(self, engine: SimEngine) -> None:
        """What it had as its file; where somebody asks for an edit, or none need be asked for, the next one may have
        that."""
        self._took[engine.name] = "" if engine.applying or engine.reloads else engine.file.text

    def _refusal(self) -> str:
        if self.refuse:
            self.refuse -= 1
            return "no more processes are allowed"
        return ""

    def _failed(self, error: BaseException) -> None:
        raise error

    def _begun(self, new: Process) -> None:
        promises.at_spawn(self.box, self.engines[new.deck].files, self.specs, self.box.disks[new.deck].facts, new)
        promises.of_next(self.box, self.engines[new.deck].deck, self._asked_next, self._gathered, new)

    def _told(self, process: Process) -> None:
        if (engine := self.engines.get(process.deck)) is not None:
            engine.heard(process)
        else:
            self.box.let_go(process.deck)

    # -- what goes wrong, and what users ask for

    def _goes_wrong(self, engine: SimEngine) -> bool:
        """Whether the engine is gone by it."""
        for fault, odds in self.plan.odds.items():
            if self.random.random() >= odds:
                continue
            self.faults[fault] += 1
            match fault:
                case "kill":
                    self._kill(engine)
                    return True
                case "box down":
                    self._go_down()
                    for deck in self.plan.decks:
                        self.box.after(self.random.uniform(0, 30), lambda deck=deck: self.start(deck))
                    return True
                case "disk full":
                    disk = self.box.disks[engine.name]
                    disk.full = True
                    self.box.after(self.random.uniform(0, 30), lambda: self._free(engine.name))
                case "gpu lost" | "foreign" if self.box.gpus:
                    self._take(self.box.lost if fault == "gpu lost" else self.box.foreign)
                case "gpu lost" | "foreign":
                    pass
                case "refused":
                    self.refuse += 1
                case "second start":
                    self.start(engine.name)
                case "driver hangs":
                    self.box.hung_until = self.box.now + self.random.choice([5.0, 30.0, 120.0])
                    self.box.say("the driver of the GPUs hangs")
                case "no room" if self.box.no_room is None:
                    self.box.no_room = self.box.now
                    self.box.say("the disk has no room")
                    self.box.after(self.random.choice([5.0, 60.0, 300.0]), self._room)
                case "no room":
                    pass
                case "urgent":
                    tokens = tuple(token for token in engine.deck.active if self.random.random() < 0.5)
                    self._come(engine.name, [Wish("preempt", {"tokens": tokens, "by": "urgent"})])
                case "socket gone":
                    self.box.sockets.pop(engine.lock.address, None)
                    engine.deaf_since = self.box.now
                case "watch":
                    self._come(engine.name, [], watches=True, stays_s=self.random.choice([1.0, 30.0, 100.0]))
                case "edit":
                    self._edit(engine.name)
                    if self.random.random() < 0.3:
                        self._come(engine.name, [], watches=True, stays_s=100.0)
                    if self.random.random() < 0.7:
                        self._come(engine.name, [Wish("apply", _choices(self.random))])
                case "added":
                    self._add(engine.name)
                case "spoilt":
                    self._spoil(engine.name)
                case _:
                    names = [task.name for task in self.files[engine.name].tasks]
                    self._come(engine.name, wishes(self.random, names, len(self.box.gpus)))
        return False

    def _go_down(self) -> None:
        for each in list(self.engines.values()):
            self.seen["backoff at boot"] += each.deck.counts[Backoff]
            self._note(each)
            each.kill()
        self.engines.clear()
        for client in self.clients:
            client.leave()
        self.clients.clear()
        self.box.go_down()
        self.box.claims.clear()
        for deck in list(self.spoilt):
            self._mend(deck)

    def _take(self, kind: dict[str, float]) -> None:
        """A GPU is not ours for a while."""
        uuid = self.random.choice(self.box.gpus)
        if uuid not in kind:
            kind[uuid] = self.box.now
            self.box.say(f"{uuid} is {'lost' if kind is self.box.lost else 'taken by bob'}")
            self.box.after(self.random.choice([5.0, 60.0, 300.0]), lambda: kind.pop(uuid, None))

    def _room(self) -> None:
        self.box.no_room = None

    def _free(self, deck: str) -> None:
        self.box.disks[deck].full = False
        if (engine := self.engines.get(deck)) is not None:
            engine.loop.within(engine.journal.look)

    # -- clients

    def _come(
        self, deck: str, what: list[Wish], *, watches: bool | None = None, stays_s: float = 0.0, last: bool = False
    ) -> None:
        """Somebody sits down at a deck. *last*: and sees through what it came for."""
        random = self.random
        watching = not last and random.random() < 0.4 if watches is None else watches
        vanishes = not last and random.random() < 0.2
        self.clients.append(
            SimClient(
                self, deck, random, what, watches=watching, stays_s=stays_s, vanishes=vanishes,
                acts=self._undoable[deck],
            )
        )  # fmt: skip

    # -- what must hold

    def _acknowledge(self, deck: str, fact: Fact) -> None:
        if isinstance(fact, AttemptEnded):
            self.acknowledged[deck, fact.task, fact.attempt] = fact.outcome.exit_code

    def _check(self) -> None:
        """Of the world, whoever looks."""
        served = {deck: engine.since for deck, engine in self.engines.items()}
        promises.of_a_moment(self.box, self.specs, served)
        asked = {
            (deck, uuid)
            for deck, engine in self.engines.items()
            for uuid in promises.asked_for(engine.deck, self.box.now)
        }
        self._asked_next = {each: self._asked_next.get(each, self.box.now) for each in asked}
        for deck, engine in self.engines.items():
            self._gathered.update(((deck, uuid), self.box.now) for uuid in engine.deck.gathering)
        self.seen["next"] += bool(asked)
        for engine in self.engines.values():
            self.seen["blocked"] += engine.deck.counts[Blocked]
            self.seen["spent"] += bool(spent_budget(engine.deck, self.box.now))
            if engine.stopped_at is not None and self.box.now - engine.stopped_at > _STOPS_S + self.box.late_s:
                raise Broken(f"{engine.name} was to end with its tasks long ago")
            self.seen["at once"] += engine.crowded
            self.seen["renamed"] += any(task.gone for task in engine.deck.active.values())
            self.seen["rests"] += any(gpu.quarantine is not None for gpu in engine.deck.gpus.values())
            if engine.loop.ready or not engine.journal.idle:
                continue
            for client in self.clients:
                if client.deck == engine.name:
                    client.check(engine.deck)
            if self.random.random() < self.looked_at:
                self._check_replay(engine)

    def _check_disk(self, deck: str) -> None:
        if (disk := self.box.disks.get(deck)) is not None:
            promises.of_a_journal(self.box, deck, self.specs[deck], self.edited[deck], disk.facts, self.acknowledged)

    def _check_replay(self, engine: SimEngine) -> None:
        """What the journal says is what the engine knows."""
        promises.of_wishes(engine.name, engine.deck, self.box.disks[engine.name].facts)
        for told in engine.replayed().tasks:
            if (live := engine.deck.by_name.get(told.name)) is None:
                raise Broken(f"{told.name} of {engine.name} is in the journal alone")
            known, said = (NAMES[type(task.phase)] for task in (live, told))
            if known != said and not {known, said} <= _ALIKE:
                raise Broken(f"{live.name} of {engine.name}: the engine says {known}, the journal {said}")
            if told.attempts and (live.attempts, live.held) != (told.attempts, told.held):
                both = f"{live.attempts} {live.held}, the journal {told.attempts} {told.held}"
                raise Broken(f"{live.name} of {engine.name}: attempts and hold are {both}")

    def _stuck(self) -> None:
        for engine in self.engines.values():
            deck = engine.deck
            for task in deck.tasks:
                if isinstance(task.phase, (Waiting, Queued, Backoff)) and not explain(deck, task, self.box.now):
                    raise Broken(f"{task.name} of {engine.name} waits and nothing says why")
            rest = [task for task in deck.tasks if not isinstance(task.phase, FINAL)]
            told = ", ".join(f"{task.name} {NAMES[type(task.phase)]}" for task in rest)
            why = {obstacle.text: None for task in rest for obstacle in explain(deck, task, self.box.now)}
            raise Broken(f"{engine.name} does not end: {told} ({'; '.join(why)})")

    def _check_end(self) -> None:
        for deck, file in self.files.items():
            self._check_disk(deck)
            if self._unfinished(deck):
                raise Broken(f"the run of {deck} ({len(file.tasks)} tasks) has not ended")


def _choices(random: Random) -> dict[str, str]:
    running, finished = random.choice(["end", "restart", "keep"]), random.choice(["rerun", "flag", "keep"])
    return {"running": running, "finished": finished}


@contextmanager
def _seeded(random: Random, box: Simulated) -> Iterator[None]:
    """What the engine asks of the machine itself comes from the seed."""
    of_host = {"boot_id": lambda: box.boot, "hostname": lambda: "box", "boottime_s": lambda: box.now}
    with mock.patch.object(os, "urandom", new=random.randbytes), mock.patch.multiple(host, **of_host):
        yield
