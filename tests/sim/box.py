"""The world outside of engines as data: time, processes and their trees, GPUs and who claims them, disks."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from gpudeck.engine.core.events import Fact
from gpudeck.engine.ports import Instant
from tests.sim.claims import SimClaims

WALL_S = 1.7e9
BEGUN_S = 1000.0
"""When the world begins, since the boot."""
DEVICE_FAULTS = (
    "CUDA error: unspecified launch failure",
    "CUDA error: uncorrectable ECC error encountered",
    "No CUDA-capable device is detected",
)
"""What a broken GPU makes a log say."""
LOSSES = ("GPU is lost", "GPU requires reset", "fallen off the bus")
"""What the driver says of a GPU that is lost."""


@dataclass(slots=True)
class Behaviour:
    """What an execution of a task does, however it was started."""

    code: int = 0
    runs_s: float = 5.0
    reacts_s: float = 0.2
    """From a signal to its end; a deaf one ends by KILL alone."""
    deaf: bool = False
    leaves_s: float = 0.0
    """How long a child of it outlives the leader."""


@dataclass(slots=True)
class Process:
    """The tree of one attempt."""

    token: str
    deck: str
    task: str
    attempt: int
    gpus: tuple[str, ...]
    pid: int
    boot: str
    behaviour: Behaviour
    began: float
    leader: bool = True
    tree: bool = True
    code: int | None = None
    """How the leader ended; None: it runs, or was ended by the box going down."""
    fingerprint: str = ""
    """Of the work that it was started as."""
    elsewhere: bool = False
    """Ranks of it live on other nodes of its job."""
    record: bool = True
    """The wrapper's record stands in the state folder."""
    lived_s: float = 0.0
    """At least so long its leader did, once it has ended."""


@dataclass(slots=True)
class Disk:
    """What a crash leaves of one deck."""

    facts: list[Fact] = field(default_factory=list)
    full: bool = False


class Simulated:
    """One box. Everything that happens is decided by *seed*."""

    def __init__(self, seed: int, gpus: int) -> None:
        self.random = Random(seed)
        self.gpus = tuple(f"GPU-{index}" for index in range(gpus))
        self.now = BEGUN_S
        self._wall_s = WALL_S
        self.boot = "boot-1"
        self.processes: dict[str, Process] = {}
        """By token, every one that ever was."""
        self.started: list[Process] = []
        self.disks: dict[str, Disk] = {}
        self.claims = SimClaims()
        self.lost: dict[str, float] = {}
        """GPUs that are gone, and since when."""
        self.foreign: dict[str, float] = {}
        """GPUs that somebody else computes on, and since when."""
        self.broken = ""
        """The GPU on which every process fails at once."""
        self.frozen: dict[str, int | None] = {}
        """Tokens of trees that stand still, and how their leaders were about to end."""
        self.late_s = 40.0
        """So long after a timeout and its grace, with an engine there, nothing of an attempt lives."""
        self.sockets: dict[str, Any] = {}
        """What listens, by address."""
        self.no_room: float | None = None
        """Since when the disk has too little room for more to start."""
        self.hung_until = 0.0
        self.given_before: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {}
        """By what can be taken back, the values that tasks had in the place of the file's."""
        """Until then the driver answers no call."""
        self.broken_promise: Exception | None = None
        """Found in the middle of an engine, which would catch it."""
        self.trace: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._pids = itertools.count(100)

    # -- time

    def instant(self) -> Instant:
        return Instant(self.now, self._wall_s + self.now)

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._count), do))

    @property
    def next_event(self) -> float | None:
        return self._events[0][0] if self._events else None

    def happen(self) -> None:
        """The next event, at its time."""
        at, _, do = heapq.heappop(self._events)
        self.now = max(self.now, at)
        do()

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now:.4f} {text}")

    # -- processes

    def spawn(self, token: str, deck: str, task: str, attempt: int, gpus: tuple[str, ...], how: Behaviour) -> Process:
        process = Process(token, deck, task, attempt, gpus, next(self._pids), self.boot, how, self.now)
        self.processes[token] = process
        self.started.append(process)
        self.begun(process)
        self.say(f"{deck} begins {task} attempt {attempt} on {','.join(gpus) or 'cpu'}")
        self.after(how.runs_s, lambda: self.exits(process, how.code))
        return process

    def exits(self, process: Process, code: int) -> None:
        """The leader ends, if it still runs; what it leaves goes later."""
        if not process.leader or process.boot != self.boot:
            return
        process.leader, process.code, process.lived_s = False, code, self.now - process.began
        self.say(f"{process.task} attempt {process.attempt} of {process.deck} exits with {code}")
        if process.behaviour.leaves_s:
            self.after(process.behaviour.leaves_s, lambda: self.goes(process))
        else:
            self.goes(process)
        self.tell(process)

    def goes(self, process: Process) -> None:
        """Nothing of it lives any more."""
        if process.tree and not process.leader:
            process.tree = False
            self.tell(process)

    tell: Callable[[Process], None] = staticmethod(lambda _: None)
    """Told of each end; whoever follows the process passes it on."""
    begun: Callable[[Process], None] = staticmethod(lambda _: None)
    """Told of each start."""

    def signal(self, process: Process, number: int) -> None:
        """To the whole tree."""
        how = process.behaviour
        if process.leader:
            if number == 9:
                self.exits(process, 137)
                self.goes(process)
            elif not how.deaf:
                self.after(how.reacts_s, lambda: self.exits(process, 128 + number))
        elif number == 9 or not how.deaf:
            self.goes(process)

    def go_down(self) -> None:
        """The box loses its power: every process ends, and no record tells how."""
        self.boot = f"boot-{int(self.boot.split('-')[1]) + 1}"
        self.say("the box goes down")
        for process in self.processes.values():
            process.leader = process.tree = False
        self._wall_s += self.now
        self.now = 10.0
        self._wall_s -= self.now
        self.lost, self.foreign, self.hung_until, self.no_room = {}, {}, 0.0, None
        self.sockets.clear()
        # What was to happen by the clock before happens no more: processes are gone, writes are lost.
        self._events = []

    def let_go(self, deck: str) -> None:
        """No engine of it is there: claims of what no process holds are gone."""
        self.claims.gone(deck, self.used(deck))

    def used(self, deck: str) -> list[str]:
        """A GPU for each process of a deck that is on it."""
        return [uuid for each in self.alive() if each.deck == deck for uuid in each.gpus]

    def alive(self) -> list[Process]:
        return [process for process in self.processes.values() if self.lives(process)]

    def lives(self, process: Process) -> bool:
        return process.elsewhere or (process.tree and process.token not in self.frozen)
