"""What worlds have come to, by rule of the engine's fine print: a rule that no world exercises proves nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from gpudeck.engine.core.events import (
    AttemptEnded,
    AttemptStarting,
    BoxRestarted,
    DeckPaused,
    Fact,
    GpuMarked,
    GpuQuarantined,
    GpuReleased,
    Halted,
    LeaderEnded,
    OptionsChanged,
    RunStarted,
    StartRevoked,
    StopRequested,
    TakenBack,
    TakesChanged,
    TaskAccepted,
    TaskCached,
)
from tests.inside.sim import decode
from tests.sim.world import World


def marks(world: World) -> set[str]:
    """The names in `MARKS` of what has happened."""
    return {name for name, happened in MARKS.items() if happened(world)}


def _some(*kinds: type[Fact], of: Callable[[Fact], object] = lambda _: True) -> Callable[[World], bool]:
    """Some journal has such a fact."""
    return lambda world: any(isinstance(fact, kinds) and of(fact) for fact in _facts(world))


def _facts(world: World) -> Iterable[Fact]:
    return (fact for disk in world.box.disks.values() for fact in disk.facts)


def _said(pattern: str) -> Callable[[World], bool]:
    return lambda world: any(re.search(pattern, line) for line in world.box.trace)


def _ended(of: Callable[[AttemptEnded], object]) -> Callable[[World], bool]:
    return _some(AttemptEnded, of=of)  # pyright: ignore[reportArgumentType]


def _revoked(words: str) -> Callable[[World], bool]:
    return _some(StartRevoked, of=lambda fact: words in getattr(fact, "why", ""))


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


def _is(name: str, value: object) -> Callable[[Fact], bool]:
    return lambda fact: getattr(fact, name, None) == value


def _under(option: str) -> Callable[[World], bool]:
    return _some(OptionsChanged, of=lambda fact: getattr(decode(getattr(fact, "options", "")), option))


def _seen(what: str) -> Callable[[World], bool]:
    return lambda world: world.seen[what] > 0


def _fault(what: str) -> Callable[[World], bool]:
    return lambda world: world.faults[what] > 0


MARKS: Mapping[str, Callable[[World], bool]] = {
    "1: a start that never reached the world is made again under its number": _same_number,
    "3: an engine goes on with a run in which something failed": _continued,
    "3: a run is begun by hand": _some(RunStarted, of=_is("takes", ("retry",))),
    "4: a task is done earlier, and does not run": _some(TaskCached),
    "4: a result is kept although the file has changed": _some(TaskAccepted),
    "5: a GPU on which all fails rests": _some(GpuQuarantined),
    "5: a GPU that rested is used again": _some(GpuReleased),
    "5: a GPU is lost": _said("GPU.*is lost"),
    "8: a leader ended before its tree": _some(LeaderEnded),
    "10: a stop outlives its engine": _stopped_by_two,
    "11: the box has another boot": _some(BoxRestarted),
    "15: the driver answers no call": _said("the driver of the GPUs hangs"),
    "18: somebody else computes on a GPU": _said("is taken by"),
    "18: a user takes a GPU that others use": _some(GpuMarked, of=_is("mark", "take")),
    "19: what cannot start any more is blocked": _seen("blocked"),
    "19: an engine ends with tasks that are held": _seen("left held"),
    "20: a task that needs several GPUs gets them": _some(
        AttemptStarting, of=lambda fact: len(getattr(fact, "gpus", ())) > 1
    ),
    "21: another deck has the GPU": _revoked("taken by"),
    "22: a GPU is left to others": lambda world: any(file.settings.keep_free for file in world.files.values()),
    "22: a GPU is drained": _some(GpuMarked, of=_is("mark", "drain")),
    "23: tasks have priorities": lambda world: any(
        task.priority for file in world.files.values() for task in file.tasks
    ),
    "23: a task that is next asks other decks for a GPU": _seen("next"),
    "23: a GPU is left to a task of another deck that is next": lambda world: world.box.claims.left > 0,
    "24: a run is halted": _some(Halted),
    "24: a halted run goes on": lambda world: any(
        isinstance(one, Halted) and isinstance(other, DeckPaused)
        for disk in world.box.disks.values()
        for one, other in pairwise(fact for fact in disk.facts if isinstance(fact, (Halted, DeckPaused)))
    ),
    "25: a run goes on with some of its tasks": _under("only"),
    "25: a run goes on with other slots": _under("slots_per_gpu"),
    "25: a run goes on with other GPUs": _under("gpus"),
    "25: a need is left out": _said("change.*which is left out and not done"),
    "25: what an ended run left out is taken in": _under("also"),
    "25: a task runs again with another value than the file's": _some(
        AttemptStarting, of=lambda fact: " bs=" in getattr(fact, "fingerprint", "")
    ),
    "26: a file is edited while its deck runs": _said("has taken up its file"),
    "26: a file is half saved": _said("half saved"),
    "26: a broken file is mended while its deck runs": _said("cannot be used; the deck goes on as it was"),
    "26: no engine starts on a broken file": _seen("refused file"),
    "26: a file is gone": _said("notes: tasks.toml is gone"),
    "26: a task is renamed while it runs": _seen("renamed"),
    "26: an engine comes back with the file as it was, and an edit waits": _seen("kept file"),
    "29: an engine is there to note what was asked for": _said("detached to note"),
    "27: what was interrupted or lost is tried again uncharged": _some(
        AttemptEnded, of=lambda fact: not getattr(fact, "charged", True)
    ),
    "28: a deaf tree is killed after its grace": _said("exits with 137"),
    "29: a client ends the engine and no task": _said("stop tasks=False now=False is answered: ok"),
    "29: a client ends the tasks and the engine": _some(StopRequested, of=_is("why", "interrupted")),
    "30: somebody asks why tasks wait": _said("explain.*is answered: ok"),
    "31: the disk was full": _fault("disk full"),
    "33: an engine died with facts that were not on disk": _seen("unwritten"),
    "33: a request is refused by an engine that ends": _said("the engine was just ending: look whether this was done"),
    "34: what an end leads to is done by the next engine": _seen("unsettled"),
    "35: the clock began anew under a task that was to be tried again": _seen("backoff at boot"),
    "36: a socket is removed": _fault("socket gone"),
    "36: two clients ask at once": _seen("at once"),
    "36: a client vanishes before it is answered": _said("a client vanishes"),
    "36: what was asked of one engine is taken back by another": _some(TakenBack),
    "Hours: a task waited for its own": lambda world: any(
        fact.task in {task.name for task in file.tasks if task.resources.between}
        for name, file in world.files.items()
        for fact in world.box.disks[name].facts
        if isinstance(fact, AttemptStarting)
    ),
    "Budget: its GPU hours are used up": _seen("spent"),
    "Disk: it has no room for more to start": _said("the disk has no room"),
    "Yield: a task makes way for a more urgent one": _ended(
        lambda fact: fact.outcome.detail == "urgent took its place"
    ),
    "Halt: tasks in a row failed early": _some(Halted, of=lambda fact: "of its start" in getattr(fact, "by", "")),
    "Prune: what is lost among its peers is stopped": _ended(_is("next", "pruned")),
    "Slurm: tasks share an array": _said(r"sbatch of ([2-9]|\d\d)"),
    "Slurm: a job is taken, and the answer lost": _said("sbatch of .*reply lost"),
    "Slurm: a submission is lost": _said("sbatch of .*submission lost"),
    "Slurm: a submission comes late": _said("sbatch of .*late"),
    "Slurm: what may have been submitted is given up": _revoked("sbatch gave no answer"),
    "Slurm: a job that was given up begins, and runs nothing": _said("finds its claim taken"),
    "Slurm: a job that waited is forgotten": _revoked("has forgotten"),
    "Slurm: a node that was cut off comes back": _said("is back"),
    "Slurm: the login node goes down": _said("the login node goes down"),
    "Slurm: nobody knows the code": _ended(lambda fact: fact.outcome.reason == "lost"),
    "Slurm: out of memory": _ended(lambda fact: fact.outcome.reason == "oom"),
    "Slurm: preempted": _ended(lambda fact: fact.outcome.reason == "preempted"),
    "Slurm: its own time limit": _ended(lambda fact: "Slurm's time limit" in fact.outcome.detail),
    "Slurm: cancelled from outside": _ended(lambda fact: fact.outcome.detail == "by scancel"),
    "Slurm: a job can write no log": _said("can write no log"),
    "Slurm: a job cannot write its end": _said("cannot write its end"),
    "Slurm: a job has several nodes": _said(r"runs on node\d,"),
    "Slurm: a job loses a node that is not its first": _said(r"job \S+: NODE_FAIL"),
    "Slurm: a node that failed is avoided": _ended(lambda fact: fact.outcome.reason == "node_fail" and fact.avoid),
}
"""By number of the rule and what happens; see `docs/dev/promises.md`."""

UNREACHED: Mapping[int, str] = {
    2: "the proof that nothing lives is the launcher's: contract suite, faults",
    6: "locks and what inherits them are the kernel's: adapters",
    7: "members of a tree are found by the kernel's means: adapters",
    9: "the wrapper is a shell script: contract suite",
    12: "environments are read at the opening of real decks",
    13: "systemd and logind: service, faults",
    14: "folders that are removed or shared: state watch, e2e",
    16: "patterns run in a helper process: logs",
    17: "no task of a plan says how much memory it wants: the core's machine",
    32: "a disk here forgets, and does not lie: journal",
    37: "an engine's code is not replaced: server",
    38: "a budget: bench",
    39: "a budget: bench",
    40: "a budget: bench",
    41: "a budget, and decks of thousands of tasks: bench",
    42: "kernels without a feature: adapters",
    43: "GPUs keep their numbers: opening",
}
"""Rules that no world can come to, and why; where they are looked at."""
