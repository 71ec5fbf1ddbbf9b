"""Attempts as process trees on this box."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from ..core.spec import StopScope
from ..ports import Known, Sink, StartOrder
from . import proc, record
from .background import Background
from .ends import Ends
from .family import Attempt
from .lookup import Everybody
from .proc import Features
from .recovery import Recovery
from .stopping import Stopping
from .target import AttemptTree
from .trees import World
from .watch import Watcher, send
from .wrapper import Spawner

_SWEEP_S = 10.0
_LEARN_S = 0.1
_LATE_S = 60.0

become_subreaper = proc.become_subreaper


class LocalLauncher:
    """`ports.Launcher` for this box. Call `become_subreaper` once before it is made.

    Children of this process in other sessions than its own are taken for what attempts left and may be killed: helpers
    that other parts start have to stay in this process's session.
    """

    def __init__(
        self,
        attempts_dir: str,
        sink: Sink,
        loop: asyncio.AbstractEventLoop,
        *,
        same_boot: bool = True,
        same_namespace: bool = True,
        features: Features | None = None,
    ) -> None:
        """Record files lie in *attempts_dir*. *same_boot* and *same_namespace* (of pids) tell whether attempts that
        are to be recovered were started where this process runs. *features*: what to make use of; default: probed."""
        os.makedirs(attempts_dir, mode=0o700, exist_ok=True)
        self._dir = attempts_dir
        self._loop = loop
        features = features or proc.probe()
        self._watcher = Watcher(loop, pidfd=features.pidfd)
        self._background = Background(loop)
        self._ends = Ends(World(loop, sink, self._watcher, self._background, features))
        self._trees = self._ends.trees
        self._recovery = Recovery(
            self._ends, loop, sink, same_boot=same_boot, same_namespace=same_namespace, own_orphans=features.subreaper
        )
        self._children_files = features.children_files
        self._subreaper = features.subreaper
        self._spawner = Spawner()
        self._sweeping: asyncio.TimerHandle | None = None
        self._learning: asyncio.TimerHandle | None = None
        self._void: set[str] = set()
        self._closed = False

    def start(self, order: StartOrder) -> tuple[int, int]:
        """See `ports.Launcher`. Costs about 0.1 ms."""
        path = self._record(order.token)
        started_s = proc.boot_s()
        pid = self._spawner.spawn(order, path)
        process = proc.stat(pid)
        start_ticks = process.start_ticks if process else 0
        self._ends.follow(
            Attempt(
                order.token, path, pid, start_ticks, order.leftovers, child=True, own=self._subreaper,
                started_s=started_s, cwd=order.cwd, stdout=order.stdout, stderr=order.stderr,
            )
        )  # fmt: skip
        self._keep_sweeping()
        return pid, start_ticks

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, str]:
        """See `ports.Launcher`. May take some hundred milliseconds, and seconds where a process hangs in the kernel."""
        self._recovery.begin()
        found = {known.token: self._recovery.recover(known, self._record(known.token)) for known in attempts}
        self._void.update(token for token, fate in found.items() if fate == "never ran")
        self._trees.look_for_strays()
        self._keep_sweeping()
        return found

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`."""
        attempt = self._trees.attempts.get(token)
        if attempt is None:
            return
        if attempt.stop is not None:
            attempt.stop.hasten(number=signal, grace_s=grace_s)
            return
        target = AttemptTree(attempt, self._trees, children_files=self._children_files)
        attempt.stop = Stopping(self._loop, target, number=signal, scope=scope)
        attempt.stop.begin(grace_s)

    def warn(self, token: str, signal: int) -> int:
        """See `ports.Launcher`. For adopted attempts only what descends from the wrapper is found."""
        attempt = self._trees.attempts.get(token)
        if attempt is None:
            return 0
        members = self._trees.descendants(attempt).signalled.values()
        listening = [p for p in members if p.pid != attempt.pid and proc.catches(p.pid, signal)]
        return sum(send(process.pid, process.start_ticks, signal) for process in listening)

    def members(self) -> Mapping[int, str]:
        """See `ports.Launcher`. Looking up a pid reads a few files, going through all of them reads whole trees."""
        return Everybody(self._trees)

    def forget(self, token: str) -> None:
        """See `ports.Launcher`."""
        if token in self._void:
            # Its wrapper may still be on its way, and only this file keeps it from running.
            self._void.discard(token)
            self._loop.call_later(_LATE_S, record.drop, self._record(token))
        else:
            record.drop(self._record(token))

    def close(self) -> None:
        """See `ports.Launcher`. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._sweeping, self._learning):
            if timer is not None:
                timer.cancel()
        self._trees.close()
        self._watcher.close()
        self._background.close()
        self._spawner.close()

    def _record(self, token: str) -> str:
        return f"{self._dir}/{token}"

    def _keep_sweeping(self) -> None:
        """Orphans that die while their leader runs would stay zombies; commands are known once they exist."""
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)
        if self._learning is None:
            self._learning = self._loop.call_later(_LEARN_S, self._learn)

    def _learn(self) -> None:
        more = self._ends.learn_commands()
        self._learning = self._loop.call_later(_LEARN_S, self._learn) if more else None

    def _sweep(self) -> None:
        self._sweeping = None
        self._trees.orphans.sweep()
        self._trees.look_for_strays()
        if self._trees.attempts or self._trees.orphans:
            self._keep_sweeping()
