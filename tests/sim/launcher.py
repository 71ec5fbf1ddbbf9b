"""A launcher whose processes are data; they outlive its engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpudeck.engine.core.events import Fate
from gpudeck.engine.core.inputs import LeaderExited, Spawned, TreeGone
from gpudeck.engine.core.spec import StopScope
from gpudeck.engine.ports import Known, Sink, SpawnRefusedError, StartOrder
from tests.sim.box import DEVICE_FAULTS, Behaviour, Process, Simulated

KILL = 9


class SimLauncher:
    """`ports.Launcher` of one engine of one deck."""

    def __init__(
        self, box: Simulated, deck: str, sink: Sink, soon: Callable[[Callable[[], None]], object],
        behaviour: Callable[[str, int], Behaviour], refusals: Callable[[], str],
    ) -> None:  # fmt: skip
        self._box = box
        self._deck = deck
        self._sink = sink
        self._soon = soon
        self._behaviour = behaviour
        self._refusals = refusals
        self._followed: dict[str, list[str]] = {}
        """What the sink has been told of, by token."""

    # -- what the world tells

    def told(self, process: Process) -> None:
        """Something of it has ended."""
        if process.deck == self._deck and process.token in self._followed:
            self._soon(lambda: self._tell(process.token))

    def _tell(self, token: str) -> None:
        process, told = self._box.processes[token], self._followed.get(token)
        if told is None:
            return
        if not process.leader and "leader" not in told:
            told.append("leader")
            self._sink(LeaderExited(token, process.code, self._box.now))
        if not process.tree and "tree" not in told:
            told.append("tree")
            self._release()
            self._sink(TreeGone(token, self._box.now))

    # -- what the engine asks

    def start(self, order: StartOrder) -> tuple[int, int] | None:
        if why := self._refusals():
            raise SpawnRefusedError(why)
        if taken := tuple(self._others(order.claims).items()):
            raise SpawnRefusedError(f"GPU taken by {taken[0][1]}", taken)
        self._box.claims.take(self._deck, order.claims)
        task, attempt = order.env["GPUDECK_TASK"], int(order.env["GPUDECK_ATTEMPT"])
        how = self._behaviour(task, attempt)
        if self._box.broken in order.claims:
            how = Behaviour(code=1, runs_s=0.05)
            with open(order.stderr, "a") as log:
                log.write(f"RuntimeError: {DEVICE_FAULTS[attempt % len(DEVICE_FAULTS)]}\n")
        process = self._box.spawn(order.token, self._deck, task, attempt, order.claims, how)
        self._followed[order.token] = []
        return process.pid, 1

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        return {known.token: self._recover(known) for known in attempts}

    def _recover(self, known: Known) -> Fate:
        process = self._box.processes.get(known.token)
        unknown = process is not None and not process.record and not process.tree
        if process is None or unknown:
            self._soon(lambda: self._sink(TreeGone(known.token, self._box.now, never_ran=True)))
            return "never ran"
        self._followed[known.token] = []
        if process.tree:
            self._box.claims.take(self._deck, process.gpus)
        if not known.pid and process.leader:
            self._soon(lambda: self._sink(Spawned(known.token, process.pid, 1)))
        self._soon(lambda: self._tell(known.token))
        if process.leader or process.tree:
            return "adopted"
        return "ended" if process.code is not None else "lost"

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:  # noqa: ARG002
        process = self._box.processes.get(token)
        if process is None or not process.tree:
            return
        self._box.say(f"{self._deck} stops {process.task} attempt {process.attempt} ({signal}, {grace_s:g} s)")
        if grace_s > 0:
            self._box.signal(process, signal)
            self._box.after(grace_s, lambda: self._box.signal(process, KILL))
        else:
            self._box.signal(process, KILL)

    def warn(self, token: str, signal: int) -> int:  # noqa: ARG002
        return 0

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:  # noqa: ARG002
        self._box.claims.gather(self._deck, gpus, first, self._box.used(self._deck))

    def members(self) -> Mapping[int, str]:
        return {process.pid: process.token for process in self._box.alive() if process.deck == self._deck}

    def forget(self, token: str) -> None:
        process = self._box.processes.get(token)
        if process is not None:
            process.record = False
        self._followed.pop(token, None)

    def close(self) -> None:
        """Of what is not followed any more the claims go with the processes."""
        self._followed.clear()

    def _others(self, gpus: Sequence[str]) -> Mapping[str, str]:
        return self._box.claims.others(self._deck, gpus, self._box.used(self._deck))

    def _release(self) -> None:
        self._box.claims.look(self._deck, self._box.used(self._deck))
