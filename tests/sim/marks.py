"""What worlds have come to, by rule of the engine's fine print: a rule that no world exercises proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gpudeck.engine.core.events import (
    AttemptEnded,
    AttemptStarting,
    BoxRestarted,
    Fact,
    GpuQuarantined,
    Halted,
    LeaderEnded,
    RunStarted,
    StartRevoked,
    TakesChanged,
)
from tests.sim.slurm_marks import ON_CLUSTER
from tests.sim.world import World


def marks(world: World) -> set[str]:
    """The names in `MARKS` of what has happened."""
    return {name for name, happened in MARKS.items() if happened(world)}


def _some(*kinds: type[Fact], of: Callable[[Fact], object] = lambda _: True) -> Callable[[World], bool]:
    """Some journal has such a fact."""
    return lambda world: any(isinstance(fact, kinds) and of(fact) for fact in _facts(world))


def _facts(world: World) -> Iterable[Fact]:
    return (fact for disk in world.box.disks.values() for fact in disk.facts)


def _said(*words: str) -> Callable[[World], bool]:
    return lambda world: any(all(word in line for word in words) for line in world.box.trace)


def _same_number(world: World) -> bool:
    starts = Counter(
        (id(disk), f.task, f.attempt)
        for disk in world.box.disks.values()
        for f in disk.facts
        if isinstance(f, AttemptStarting)
    )
    return any(count > 1 for count in starts.values())


def _stopped_by_two(world: World) -> bool:
    """A stop that one engine decided was gone on with by another."""
    stops = Counter(line.split(" ", 1)[1].split(" (")[0] for line in world.box.trace if " stops " in line)
    return any(count > 1 for count in stops.values())


def _continued(world: World) -> bool:
    """An engine came to a run in which something had failed."""
    for disk in world.box.disks.values():
        failed = False
        for fact in disk.facts:
            failed = not isinstance(fact, RunStarted) and (
                failed or (isinstance(fact, AttemptEnded) and fact.next == "failed")
            )
            if failed and isinstance(fact, TakesChanged):
                return True
    return False


MARKS: Mapping[str, Callable[[World], bool]] = {
    "1: a start that never reached the world is made again under its number": _same_number,
    "3: an engine goes on with a run in which something failed": _continued,
    "5: a GPU on which all fails rests": _some(GpuQuarantined),
    "8: a leader ended before its tree": _some(LeaderEnded),
    "10: a stop outlives its engine": _stopped_by_two,
    "11: the box has another boot": _some(BoxRestarted),
    "18: somebody else computes on a GPU": _said("is taken by"),
    "19: what cannot start any more is blocked": lambda world: world.seen["blocked"] > 0,
    "20: a task that needs several GPUs gets them": _some(
        AttemptStarting, of=lambda fact: len(getattr(fact, "gpus", ())) > 1
    ),
    "21: another deck has the GPU": _some(StartRevoked, of=lambda fact: "taken by" in getattr(fact, "why", "")),
    "22: a GPU is left to others": lambda world: any(file.settings.keep_free for file in world.files.values()),
    "23: tasks have priorities": lambda world: any(
        task.priority for file in world.files.values() for task in file.tasks
    ),
    "24: a run is halted": _some(Halted),
    "26: a file is edited while its deck runs": _said("has taken up its file"),
    "27: what was interrupted or lost is tried again uncharged": _some(
        AttemptEnded, of=lambda fact: not getattr(fact, "charged", True)
    ),
    "28: a deaf tree is killed after its grace": _said("exits with 137"),
    "31: the disk was full": lambda world: world.faults["disk full"] > 0,
    "33: an engine died with facts that were not on disk": lambda world: world.seen["unwritten"] > 0,
    "35: the clock began anew under a task that was to be tried again": lambda world: world.seen["backoff at boot"] > 0,
    **ON_CLUSTER,
}
"""By number of the rule and what happens; see `docs/reliability.md`."""
