"""A launcher without processes: attempts end when a test says so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpudeck.engine.core.events import Fate, Unproven
from gpudeck.engine.core.inputs import LeaderExited, Spawned, Submitted, TreeGone
from gpudeck.engine.core.spec import StopScope
from gpudeck.engine.ports import Known, Sink, SpawnRefusedError, StartOrder


@dataclass(frozen=True, slots=True)
class Stopped:
    """One call of `stop`."""

    token: str
    signal: int
    scope: StopScope
    grace_s: float


@dataclass
class FakeLauncher:
    """`ports.Launcher` under a test's control. What it was asked is in its lists, what it answers in its fields."""

    sink: Sink
    now: Callable[[], float] = lambda: 0.0
    """CLOCK_BOOTTIME for the inputs."""
    obedient: bool = False
    """`stop` ends the attempt with 128 + signal in the next turn of the loop."""
    refuse: str = ""
    """Why `start` raises SpawnRefusedError; empty: it starts."""
    listeners: int = 0
    """What `warn` returns for a running attempt."""
    fates: dict[str, Fate] = field(default_factory=dict[str, Fate])
    """What `recover` answers by token; "never ran" for others."""
    recovered_code: int = 0
    """Exit code of attempts whose fate is "ended"."""
    orders: list[StartOrder] = field(default_factory=list[StartOrder])
    stops: list[Stopped] = field(default_factory=list[Stopped])
    warnings: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    forgotten: list[str] = field(default_factory=list[str])
    gathered: tuple[str, ...] = ()
    pids: dict[str, int] = field(default_factory=dict[str, int])
    """Pid by token, of attempts of which something lives."""
    cluster: bool = False
    """`start` hands over to a cluster; a test says when that takes an attempt and when it begins."""
    closed: bool = False
    _next_pid: Callable[[], int] = field(default_factory=lambda: itertools.count(1000).__next__)
    _leaders: set[str] = field(default_factory=set[str])

    # -- what a test tells it

    def take(self, token: str, job: str) -> None:
        """The cluster has taken it."""
        self.sink(Submitted(token, job))

    def begin(self, token: str, job: str, *nodes: str) -> None:
        """The cluster has begun it just now."""
        self.sink(Spawned(token, at=self.now(), nodes=nodes, job=job))

    def end(self, token: str, code: int | None = 0, *, signal: int | None = None, spawn_error: str = "") -> None:
        """The leader ends and leaves nothing."""
        self.end_leader(token, code, signal=signal, spawn_error=spawn_error)
        self.end_tree(token)

    def end_leader(self, token: str, code: int | None = 0, *, signal: int | None = None, spawn_error: str = "") -> None:
        """The leader ends; something of it lives on."""
        self._leaders.remove(token)
        self.sink(LeaderExited(token, code, self.now(), signal, spawn_error))

    def end_tree(self, token: str, *, left_behind: tuple[int, ...] = (), never_ran: bool = False) -> None:
        """Nothing of it lives any more."""
        self._leaders.discard(token)
        del self.pids[token]
        self.sink(TreeGone(token, self.now(), left_behind, never_ran))

    @property
    def running(self) -> list[str]:
        """Tokens of attempts whose leader runs, in the order of their starts."""
        return [token for token in self.pids if token in self._leaders]

    # -- what the engine asks of it

    def start(self, order: StartOrder) -> tuple[int, int] | None:
        if self.refuse:
            raise SpawnRefusedError(self.refuse)
        assert order.token not in {earlier.token for earlier in self.orders}, "the same token was started twice"
        self.orders.append(order)
        pid = self._run(order.token)
        return None if self.cluster else (pid, 1)

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        return {known.token: self._recover(known) for known in attempts}

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        self.stops.append(Stopped(token, signal, scope, grace_s))
        if self.obedient and token in self.pids:
            asyncio.get_running_loop().call_soon(self._obey, token, 128 + signal if grace_s > 0 else 137)

    def warn(self, token: str, signal: int) -> int:
        self.warnings.append((token, signal))
        return self.listeners if token in self.pids else 0

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:  # noqa: ARG002
        self.gathered = tuple(gpus)

    def members(self) -> Mapping[int, str]:
        return {} if self.cluster else {pid: token for token, pid in self.pids.items()}

    def forget(self, token: str) -> None:
        self.forgotten.append(token)

    def close(self) -> None:
        self.closed = True

    def _run(self, token: str) -> int:
        self.pids[token] = self._next_pid()
        self._leaders.add(token)
        return self.pids[token]

    def _recover(self, known: Known) -> Fate:
        fate = self.fates.get(known.token, "never ran")
        if isinstance(fate, Unproven):
            return fate
        self._run(known.token)
        loop = asyncio.get_running_loop()
        if fate == "never ran":
            loop.call_soon(lambda: self.end_tree(known.token, never_ran=True))
        elif fate != "adopted":
            loop.call_soon(self.end, known.token, self.recovered_code if fate == "ended" else None)
        return fate

    def _obey(self, token: str, code: int) -> None:
        if token in self._leaders:
            self.end_leader(token, code)
        if token in self.pids:
            self.end_tree(token)
