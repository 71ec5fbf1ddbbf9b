"""Runs a plan: engines, their clients and what goes wrong, one piece at a time; checks what must always hold."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from gpudeck.engine.core.events import AttemptEnded, Fact
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.inputs import Verb
from gpudeck.engine.core.phases import FINAL, NAMES, Backoff, Blocked, Queued, Waiting
from gpudeck.engine.core.recorded import recorded
from tests.inside.sim import Choices, host, taken
from tests.sim import promises
from tests.sim.box import Process, Simulated
from tests.sim.engine import SimEngine, cleared, state_folder
from tests.sim.plan import Plan, edited
from tests.sim.promises import Broken

PIECES = 200_000
"""More of them, and a run will never end."""
LATEST_S = 3_000.0
"""Of the world's time without faults, in which all that can end ends;"""
LATEST_RESTED_S = 40_000.0
"""and where a GPU rests, which longer and longer pauses between probes end."""


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
        self.files = dict(plan.decks)
        """As they are now."""
        self.specs = {deck: {spec.name: spec for spec in file.tasks} for deck, file in plan.decks.items()}
        """Every task that a deck ever had."""
        self.edited = {deck: set[str]() for deck in plan.decks}
        self._written = {(deck, file.text): file for deck, file in plan.decks.items()}
        """All that ever stood in a task file."""
        self.engines: dict[str, SimEngine] = {}
        self.acknowledged: dict[tuple[str, str, int], int | None] = {}
        """Exit codes that observers were told of and that were on disk."""
        self.faults: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        """What engines were in the middle of; see `marks`."""
        self.refuse = 0
        self.elapsed = 0.0
        self._calm_at: float | None = None
        self._known: dict[str, tuple[int, bool]] = {}
        """By deck, of a journal of how many facts it is known whether its run has ended."""
        self._released = False

    # -- a run

    def run(self) -> None:
        with _seeded(self.random, self.box):
            self._begin()
            for _ in range(PIECES):
                if not self._piece():
                    break
            else:
                raise Broken("the run does not come to an end")
            self._check_end()

    def _begin(self) -> None:
        for deck in self.plan.decks:
            self._start(deck)

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
            if engine.loop.dead:  # it has ended by itself
                self._ended(engine)
            return True
        if not self._faults and not self._sound():
            return False
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
        """Nothing goes wrong any more: disks have space, each deck that is not done has an engine. False: all are."""
        rest = [deck for deck in self.plan.decks if deck in self.engines or self._unfinished(deck)]
        for deck in rest if self._calm_at is None else ():
            self._free(deck)
            self._start(deck)
        self._calm_at = self.box.now if self._calm_at is None else self._calm_at
        self.box.broken = ""
        return bool(rest)

    def _unfinished(self, deck: str) -> bool:
        facts = self.box.disks[deck].facts
        if self._known.get(deck, (-1, False))[0] != len(facts):
            self._known[deck] = len(facts), recorded(facts).unfinished
        return self._known[deck][1]

    # -- engines

    def _start(self, deck: str) -> None:
        """Somebody types `gpudeck`; where an engine has the lock nothing comes of it."""
        if deck in self.engines:
            return
        self.box.say(f"an engine of {deck} starts")
        self._check_disk(deck)
        plan, runs = self.plan, deck in self.box.disks
        if runs and self._faults and self.random.random() < plan.edits:
            self._edit(deck)
        before = self._written.get((deck, (taken.load(state_folder(self.folder, deck)) or b"").decode()))
        headless = not runs or self.random.random() < 0.5
        engine = self.engine_kind(
            self.box,
            deck,
            self.files[deck],
            before,
            ("failed", "changed", "stale") if headless else None,
            self.folder,
            lambda task, attempt: plan.behaviour(deck, task, attempt),
            self._refusal,
            self._failed,
            lambda fact: self._acknowledge(deck, fact),
        )
        self.engines[deck] = engine

    def _edit(self, deck: str) -> None:
        before = self.files[deck]
        file = self.files[deck] = edited(self.random, before)
        self._written[deck, file.text] = file
        now = {spec.name: spec.fingerprint for spec in file.tasks}
        self.edited[deck] |= {spec.name for spec in before.tasks if now.get(spec.name) != spec.fingerprint}
        self.specs[deck] |= {spec.name: spec for spec in file.tasks}
        self.box.say(f"the file of {deck} has {len(file.tasks)} tasks, some others")

    def _ended(self, engine: SimEngine) -> None:
        del self.engines[engine.name]
        self.box.say(f"the engine of {engine.name} has ended")
        if self._faults and self.random.random() < 0.5:
            self.box.after(self.random.uniform(0, 50), lambda: self._start(engine.name))

    def _kill(self, engine: SimEngine) -> None:
        self.seen["unwritten"] += not engine.journal.idle
        engine.kill()
        del self.engines[engine.name]
        self.box.after(self.random.choice([0.0, 0.1, 3.0, 60.0]), lambda: self._start(engine.name))

    def _refusal(self) -> str:
        if self.refuse:
            self.refuse -= 1
            return "no more processes are allowed"
        return ""

    def _failed(self, error: BaseException) -> None:
        raise error

    def _begun(self, new: Process) -> None:
        promises.at_spawn(self.box, self.engines[new.deck].files, self.box.disks[new.deck].facts, new)

    def _told(self, process: Process) -> None:
        if (engine := self.engines.get(process.deck)) is not None:
            engine.heard(process)

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
                        self.box.after(self.random.uniform(0, 30), lambda deck=deck: self._start(deck))
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
                    self._start(engine.name)
                case "watch":
                    engine.watched(self.random.choice([1.0, 30.0, 100.0]))
                case "edit":
                    self._edit(engine.name)
                    running, finished = (
                        self.random.choice(["end", "restart", "keep"]),
                        self.random.choice(["rerun", "flag", "keep"]),
                    )
                    engine.edited(self.files[engine.name], Choices(running, finished))
                case _:
                    self._ask(engine)
        return False

    def _go_down(self) -> None:
        for each in list(self.engines.values()):
            self.seen["backoff at boot"] += each.deck.counts[Backoff]
            each.kill()
        self.engines.clear()
        self.box.go_down()
        self.box.claims.clear()

    def _take(self, kind: dict[str, float]) -> None:
        """A GPU is not ours for a while."""
        uuid = self.random.choice(self.box.gpus)
        if uuid not in kind:
            kind[uuid] = self.box.now
            self.box.say(f"{uuid} is {'lost' if kind is self.box.lost else 'taken by bob'}")
            self.box.after(self.random.choice([5.0, 60.0, 300.0]), lambda: kind.pop(uuid, None))

    def _free(self, deck: str) -> None:
        self.box.disks[deck].full = False
        if (engine := self.engines.get(deck)) is not None:
            engine.loop.within(engine.journal.look)

    def _ask(self, engine: SimEngine) -> None:
        random = self.random
        verb = random.choice(["cancel", "kill", "retry", "hold", "release", "pause", "unpause", "priority"])
        names = [task.name for task in engine.file.tasks]
        some = tuple(random.sample(names, min(len(names), random.randint(1, 3))))
        of_deck = verb in ("pause", "unpause")
        value = random.randint(-3, 3) if verb == "priority" else 0
        self.box.say(f"{engine.name}: somebody asks to {verb} {','.join(some)}")
        engine.ask(Verb(verb, () if of_deck else some, value, act=f"{random.getrandbits(48):x}"))

    # -- what must hold

    def _acknowledge(self, deck: str, fact: Fact) -> None:
        if isinstance(fact, AttemptEnded):
            self.acknowledged[deck, fact.task, fact.attempt] = fact.outcome.exit_code

    def _check(self) -> None:
        """Of the world, whoever looks."""
        served = {deck: engine.since for deck, engine in self.engines.items()}
        promises.of_a_moment(self.box, self.specs, served, self.plan.slots)
        for engine in self.engines.values():
            self.seen["blocked"] += engine.deck.counts[Blocked]
            self.seen["rests"] += any(gpu.quarantine is not None for gpu in engine.deck.gpus.values())
            if engine.loop.ready or not engine.journal.idle:
                continue
            for client in engine.clients:
                client.check(engine.deck)
            if self.random.random() < self.looked_at:
                self._check_replay(engine)

    def _check_disk(self, deck: str) -> None:
        if (disk := self.box.disks.get(deck)) is not None:
            promises.of_a_journal(self.box, deck, self.specs[deck], self.edited[deck], disk.facts, self.acknowledged)

    def _check_replay(self, engine: SimEngine) -> None:
        """What the journal says is what the engine knows."""
        again, _ = engine.replayed()
        for told in again.tasks:
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
            if rest and not (deck.paused or any(task.held for task in rest)):
                told = ", ".join(f"{task.name} {NAMES[type(task.phase)]}" for task in rest)
                raise Broken(f"nothing is in the way and {engine.name} does not end: {told}")
        if self._released:
            raise Broken("the run does not end although users let go of all that they held")
        self._released = True
        self._release()

    def _release(self) -> None:
        """Users let go of what they hold."""
        self.elapsed = self.plan.faults_end
        for engine in self.engines.values():
            engine.ask(Verb("unpause", act="end"))
            names = tuple(task.name for task in engine.file.tasks if engine.deck.by_name[task.name].held)
            if names:
                engine.ask(Verb("release", names, act="end2"))

    def _check_end(self) -> None:
        for deck, file in self.files.items():
            self._check_disk(deck)
            if self._unfinished(deck):
                raise Broken(f"the run of {deck} ({len(file.tasks)} tasks) has not ended")


@contextmanager
def _seeded(random: Random, box: Simulated) -> Iterator[None]:
    """What the engine asks of the machine itself comes from the seed."""
    of_host = {"boot_id": lambda: box.boot, "hostname": lambda: "box", "boottime_s": lambda: box.now}
    with mock.patch.object(os, "urandom", new=random.randbytes), mock.patch.multiple(host, **of_host):
        yield
