"""A seed becomes a plan: decks, what their tasks do, and how often what goes wrong. Data only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from gpudeck.engine.core.hours import Clock, Hours
from gpudeck.engine.core.spec import (
    Asks,
    Budget,
    DeckFile,
    DeckSettings,
    Extras,
    Halt,
    Policy,
    Prune,
    Resources,
    Resume,
    TaskSpec,
    Work,
)
from tests.sim.box import BEGUN_S, WALL_S, Behaviour

FAULTS = (
    "kill", "box down", "disk full", "refused", "second start", "gpu lost", "foreign", "driver hangs", "edit", "spoilt",
    "watch", "socket gone", "added",
)  # fmt: skip
"""Of an engine's pieces."""
ROOM_MIB = 50_000
"""That have to be free on the disk, where a deck says so."""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    gpus: int
    decks: dict[str, DeckFile]
    behaviours: dict[tuple[str, str, int], Behaviour]
    """By deck, task and attempt; others end well after 5 s."""
    odds: dict[str, float] = field(default_factory=dict)
    """Of each fault, "user" and "urgent": how likely it is at each piece that an engine runs."""
    edits: float = 0.0
    """How likely the task file is another at each start of an engine; while one runs, see `odds`."""
    slots: int = 1
    """Tasks on a GPU at once."""
    broken: str = ""
    """The GPU on which everything fails at once while faults last."""
    faults_end: float = 200.0
    """Seconds of the world's time after which nothing goes wrong any more."""

    def behaviour(self, deck: str, task: str, attempt: int) -> Behaviour:
        return self.behaviours.get((deck, task, attempt), Behaviour())


def plan_of(seed: int) -> Plan:
    """Swarm: each plan has only some of the faults, and those more or less often."""
    random = Random(seed)
    gpus = random.choice([0, 1, 1, 2, 2, 4])
    decks = {name: _deck(random, gpus) for name in ("a", "b", "c")[: random.choice([1, 1, 2, 3])]}
    behaviours = {
        (deck, task.name, attempt): _behaviour(random)
        for deck, file in decks.items()
        for task in file.tasks
        for attempt in range(1, 6)
    }
    chosen = [name for name in (*FAULTS, "user") if random.random() < 0.6]
    odds = {name: random.choice([0.002, 0.01, 0.03]) for name in chosen}
    for rare in ("box down", "disk full", "driver hangs", "edit", "spoilt", "watch", "socket gone", "added"):
        if rare in odds:
            odds[rare] /= 10
    edits, slots = random.choice([0.0, 0.0, 0.5]), random.choice([1, 1, 1, 2])
    decks = {name: _ruled(random, file, gpus, slots) for name, file in decks.items()}
    if len(decks) > 1 and (urgent := Random(f"next {seed}")).random() < 0.4:
        decks = {name: _with_next(urgent, file) for name, file in decks.items()}
    if (judge := Random(f"prune {seed}")).random() < 0.3:
        decks = {name: _with_prune(judge, file) for name, file in decks.items()}
    if (clock := Random(f"hours {seed}")).random() < 0.2:
        decks = {name: _with_hours(clock, file) for name, file in decks.items()}
    if (early := Random(f"early {seed}")).random() < 0.1:
        decks = {name: _with_early(early, file) for name, file in decks.items()}
    if (budget := Random(f"budget {seed}")).random() < 0.1 and gpus:
        decks = {name: _with_budget(budget, file) for name, file in decks.items()}
    if (room := Random(f"room {seed}")).random() < 0.1:
        decks = {
            name: replace(file, settings=replace(file.settings, disk_mib=ROOM_MIB)) for name, file in decks.items()
        }
        odds["no room"] = room.choice([0.001, 0.003])
    if (urgent := Random(f"urgent {seed}")).random() < 0.15 and gpus:
        decks = {name: _with_checkpoints(urgent, file) for name, file in decks.items()}
        odds["urgent"] = urgent.choice([0.003, 0.01])
    broken = f"GPU-{random.randrange(gpus)}" if gpus > 1 and random.random() < 0.15 else ""
    return Plan(seed, gpus, decks, behaviours, odds, edits, slots, broken)


def _ruled(random: Random, file: DeckFile, gpus: int, slots: int) -> DeckFile:
    """The same tasks under other rules."""
    spare = all(isinstance(task.resources.gpus, int) and task.resources.gpus < gpus for task in file.tasks)
    settings = replace(
        file.settings,
        slots_per_gpu=slots,
        halt=random.choice(
            [None, None, None, Halt("soon", fail=1), Halt("now", fail=2), Halt("soon", fail_percent=50)]
        ),
        keep_free=random.choice([0, 0, 1]) if spare else 0,
        order=random.choice(["file", "longest"]),
        reload=random.choice(["ask", "ask", "auto", "off"]),
    )
    barrier, codes, alone = (
        random.choice(["succeeded", "ended"]),
        random.choice([{0}, {0}, {0, 3}]),
        random.random() < 0.2,
    )
    tasks = [
        replace(
            task,
            barrier=barrier,
            priority=random.choice([0, 0, 0, 5]),
            policy=replace(task.policy, success_codes=frozenset(codes)),
            resources=replace(task.resources, exclusive=alone and task.resources.gpus != 0),
            after=(random.choice(before).name,)
            if (before := file.tasks[: task.position]) and random.random() < 0.1
            else (),
        )
        for task in file.tasks
    ]
    return replace(file, settings=settings, tasks=tuple(tasks), text=f"{random.getrandbits(48):x}")


def _with_next(random: Random, file: DeckFile) -> DeckFile:
    """Some of its tasks go before all that waits, in other decks, too."""
    tasks = (replace(task, next=True, priority=1000) if random.random() < 0.2 else task for task in file.tasks)
    return replace(file, tasks=tuple(tasks))


def _with_prune(random: Random, file: DeckFile) -> DeckFile:
    """What is lost is stopped half way."""
    rule = Extras(prune=random.choice([Prune("loss:min", at=(0.5,), keep=2), Prune("loss:min", "asha", at=(0.5,))]))
    return replace(file, tasks=tuple(replace(task, extras=rule) for task in file.tasks))


def _with_hours(random: Random, file: DeckFile) -> DeckFile:
    """Some of its tasks start only some minutes after the world has begun."""
    opens = time.localtime(WALL_S + BEGUN_S + 60 * random.choice([1, 2, 5, 10]))
    hours = Hours(Clock(opens.tm_hour, opens.tm_min), Clock((opens.tm_hour + 12) % 24, opens.tm_min))
    tasks = (
        replace(task, resources=replace(task.resources, between=hours)) if random.random() < 0.3 else task
        for task in file.tasks
    )
    return replace(file, tasks=tuple(tasks))


def _with_early(random: Random, file: DeckFile) -> DeckFile:
    """A row of tasks that fail soon after their start halts it."""
    return replace(file, settings=replace(file.settings, halt=Halt(random.choice(["soon", "now"]), early=2)))


def _with_budget(random: Random, file: DeckFile) -> DeckFile:
    """Some GPU hours are all that it may take."""
    return replace(file, settings=replace(file.settings, budget=Budget(random.choice([0.002, 0.01, 0.03]))))


def _with_checkpoints(random: Random, file: DeckFile) -> DeckFile:
    """What can be gone on from may be stopped for what is more urgent."""
    resume = Resume(("true", "again"), ("*.ckpt",))
    return replace(
        file, tasks=tuple(replace(task, resume=resume if random.random() < 0.7 else None) for task in file.tasks)
    )


def edited(random: Random, file: DeckFile) -> DeckFile:
    """The file after somebody has been at it: a task more, fewer, with another name, with that of another task, or with
    another command. No two tasks do the same work."""
    tasks = list(file.tasks)
    one = random.choice(tasks)
    others = [task for task in tasks if task.entry == one.entry and task is not one]
    alone = not any(one.name in (*task.needs, *task.after) for task in tasks)
    match random.choice(["more", "fewer", "other", "renamed", "swapped"]):
        case "more":
            tasks.append(_new(random, one, tasks))
        case "renamed":
            tasks = _renamed(tasks, {one.name: f"{one.name}x{random.getrandbits(16):x}"})
        case "swapped" if others:
            other = random.choice(others)
            tasks = _renamed(tasks, {one.name: other.name, other.name: one.name})
        case "fewer" if len(tasks) > 1 and alone:
            tasks.remove(one)
        case _:
            tasks[one.position] = replace(one, fingerprint=f"{one.fingerprint}'", work=Work(("false",)))
    return _saved(random, file, tasks)


def with_another(random: Random, file: DeckFile) -> DeckFile:
    """A task more at its end."""
    return _saved(random, file, [*file.tasks, _new(random, random.choice(file.tasks), file.tasks)])


def _saved(random: Random, file: DeckFile, tasks: Sequence[TaskSpec]) -> DeckFile:
    placed = tuple(replace(task, position=place) for place, task in enumerate(tasks))
    return replace(file, tasks=placed, text=f"{random.getrandbits(48):x}")


def _new(random: Random, like: TaskSpec, tasks: Sequence[TaskSpec]) -> TaskSpec:
    """It may have been in the file before."""
    names, works = {task.name for task in tasks}, {task.fingerprint for task in tasks}
    name = next(name for number in range(99) if (name := f"{like.entry}{number}") not in names)
    work = f"fp-{name}"
    while work in works:
        work = f"fp-{name}-{random.getrandbits(16):x}"
    return replace(like, name=name, needs=(), after=(), fingerprint=work)


def _renamed(tasks: Sequence[TaskSpec], names: Mapping[str, str]) -> list[TaskSpec]:
    """They do the same work, and whoever needs them says so."""

    def now(old: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in old)

    return [
        replace(task, name=names.get(task.name, task.name), needs=now(task.needs), after=now(task.after))
        for task in tasks
    ]


def half_saved(random: Random, file: DeckFile) -> DeckFile:
    """The beginning of a file: valid, with fewer tasks."""
    tasks = file.tasks[: random.randint(1, len(file.tasks))]
    return replace(file, tasks=tasks, text=f"{random.getrandbits(48):x}")


def _behaviour(random: Random) -> Behaviour:
    return Behaviour(
        code=random.choice([0, 0, 0, 1, 3]),
        runs_s=random.choice([0.0, 0.05, 1.0, 5.0, 30.0, 120.0]),
        reacts_s=random.choice([0.0, 0.2, 3.0]),
        deaf=random.random() < 0.15,
        leaves_s=random.choice([0.0, 0.0, 0.0, 0.3, 20.0]),
    )


def _deck(random: Random, gpus: int) -> DeckFile:
    tasks: list[TaskSpec] = []
    round_ = 0
    for letter in "pqrst"[: random.randint(1, 5)]:
        round_ += random.choice([0, 0, 1])
        wanted = random.choice([0, 1, 1, 1, 2, "all"])
        if isinstance(wanted, int):
            wanted = min(wanted, gpus)
        resources = Resources(gpus=wanted, max_parallel=random.choice([None, None, 1]))
        policy = Policy(
            retries=random.choice([0, 1, 2]),
            backoff_s=random.choice([0.5, 5.0]),
            timeout_s=random.choice([None, None, 20.0]),
            leftovers=random.choice(["stop", "wait"]),
            grace_s=random.choice([1.0, 10.0]),
        )
        before = [task.name for task in tasks]
        for number in range(random.randint(1, 3)):
            name = f"{letter}{number}"
            needs = (random.choice(before),) if before and random.random() < 0.3 else ()
            tasks.append(
                TaskSpec(
                    name=name,
                    entry=letter,
                    position=len(tasks),
                    work=Work(("true",)),
                    fingerprint=f"fp-{name}",
                    resources=resources,
                    policy=policy,
                    on_timeout=(Asks(timeout_s=60.0), Asks(timeout_s=90.0))
                    if policy.timeout_s and letter in "prt"
                    else (),
                    needs=needs,
                    round=round_,
                )
            )
    return DeckFile("/tasks.toml", "tasks", DeckSettings(cpu_slots=2), tuple(tasks))
