"""Attempts as process trees on this box."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from ...core.events import Fate
from ...core.inputs import Input, TreeGone
from ...core.spec import StopScope
from ...ports import Known, Sink, SpawnRefusedError, StartOrder
from ..allocation import node_of
from ..background import Background
from ..claims.claims import Claims
from ..host import boottime_s
from ..watch import Watcher, send
from . import proc, record
from .adopt import Look, Recovery
from .attempts import Attempts, Everybody
from .members import Attempt, inside
from .proc import Features
from .wrapper import Spawner

_SWEEP_S = 10.0
_LEARN_S = 0.1
_LOOKS_S = (0.5, 2.0, 5.0)
"""When the processes of a container are looked for: what is on its GPUs would be a stranger's."""
_LATE_S = 60.0
_GONE = ("never ran", "lost")

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
        claims: Claims,
        look: Look,
        same_boot: bool = True,
        same_namespace: bool = True,
        features: Features | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Record files lie in *attempts_dir*. *claims* claims GPUs and is closed with this. *look* reads GPUs, on which
        something may speak against an attempt's being lost. *same_boot* and *same_namespace* (of pids) tell whether
        attempts that are to be recovered were started where this process runs. *features*: what to make use of;
        default: probed. *environment*: what container programs are called in."""
        os.makedirs(attempts_dir, mode=0o700, exist_ok=True)
        self._dir = attempts_dir
        self._sink = sink
        self._claims = claims
        self._loop = loop
        features = features or proc.probe()
        self._watcher = Watcher(loop, pidfd=features.pidfd)
        self._background = Background(loop)
        self._attempts = Attempts(loop, self._tell, self._watcher, self._background, features, environment)
        self._recovery = Recovery(
            self._attempts,
            loop,
            self._tell,
            same_boot=same_boot,
            same_namespace=same_namespace,
            own_orphans=features.subreaper,
            look=look,
        )
        self._subreaper = features.subreaper
        self._spawner = Spawner()
        self._sweeping: asyncio.TimerHandle | None = None
        self._learning: asyncio.TimerHandle | None = None
        self._void: set[str] = set()
        self._closed = False

    def start(self, order: StartOrder) -> tuple[int, int]:
        """See `ports.Launcher`."""
        path = self._record(order.token)
        started_s = boottime_s()
        pid, start_ticks = self._spawn(order, path)
        self._attempts.follow(
            Attempt(
                order.token, path, pid, start_ticks, order.leftovers, child=True,
                own=self._subreaper and not order.container, container=order.container,
                started_s=started_s, cwd=order.cwd, stdout=order.stdout, stderr=order.stderr,
                relayed=any(map(node_of, order.claims)),
            )
        )  # fmt: skip
        self._keep_sweeping()
        for delay_s in _LOOKS_S if order.container else ():
            self._loop.call_later(delay_s, self._attempts.look_for_strays)
        return pid, start_ticks

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        """See `ports.Launcher`. May take some hundred milliseconds, and seconds where a process hangs in the kernel."""
        self._recovery.begin(attempts)
        found: dict[str, Fate] = {
            known.token: self._recovery.recover(known, self._record(known.token)) for known in attempts
        }
        self._void.update(token for token, fate in found.items() if fate == "never ran")
        for known in attempts:
            if found[known.token] not in _GONE:
                self._adopt_claims(known)
        self._attempts.look_for_strays()
        self._keep_sweeping()
        return found

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`."""
        self._attempts.stop(token, signal=signal, scope=scope, grace_s=grace_s)

    def warn(self, token: str, signal: int) -> int:
        """See `ports.Launcher`. For adopted attempts only what descends from the wrapper is found."""
        attempt = self._attempts.by_token.get(token)
        if attempt is None:
            return 0
        found = self._attempts.descendants(attempt).signalled
        members = inside(found, leader=False) if attempt.container else found.values()
        listening = [p for p in members if p.pid != attempt.pid and proc.catches(p.pid, signal)]
        return sum(send(process.pid, process.start_ticks, signal) for process in listening)

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:
        """See `ports.Launcher`."""
        self._claims.gather(gpus, task, first)

    def members(self) -> Mapping[int, str]:
        """See `ports.Launcher`. Looking up a pid reads a few files, going through all of them reads whole trees."""
        return Everybody(self._attempts)

    def forget(self, token: str) -> None:
        """See `ports.Launcher`."""
        # Of those of which nothing could be proven no `TreeGone` came.
        self._claims.release(token)
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
        self._attempts.close()
        self._watcher.close()
        self._background.close()
        self._spawner.close()
        self._claims.close()

    def _tell(self, item: Input) -> None:
        """What is free is free before the core hears of it."""
        if isinstance(item, TreeGone):
            self._claims.release(item.token)
        self._sink(item)

    def _spawn(self, order: StartOrder, path: str) -> tuple[int, int]:
        """Claim its GPUs, then start the wrapper, which inherits the claim."""
        held = self._claims.take(order.token, order.claims, order.env.get("GPUDECK_TASK", ""))
        if held is not None and order.leftovers == "wait":
            self._claims.keep(order.token, held)
        try:
            pid = self._spawner.spawn(order, path, held)
        except SpawnRefusedError:
            self._claims.release(order.token)
            raise
        finally:
            if held is not None and order.leftovers != "wait":
                os.close(held)
        process = proc.stat(pid)
        return pid, process.start_ticks if process else 0

    def _adopt_claims(self, known: Known) -> None:
        """Something of an attempt of an earlier engine may live: its GPUs are still its own."""
        attempt = self._attempts.by_token.get(known.token)
        if attempt is None:
            self._claims.adopt(known.token, known.claims, known.task, lambda: [(known.pid, known.start_ticks)])
        else:
            self._claims.adopt(
                known.token, known.claims, known.task, lambda: [attempt.identity, *attempt.strays.items()]
            )

    def _record(self, token: str) -> str:
        return f"{self._dir}/{token}"

    def _keep_sweeping(self) -> None:
        """Orphans that die while their leader runs would stay zombies; commands are known once they exist."""
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_S, self._sweep)
        if self._learning is None:
            self._learning = self._loop.call_later(_LEARN_S, self._learn)

    def _learn(self) -> None:
        more = self._attempts.learn_commands()
        self._learning = self._loop.call_later(_LEARN_S, self._learn) if more else None

    def _sweep(self) -> None:
        self._sweeping = None
        self._attempts.orphans.sweep()
        self._attempts.look_for_strays()
        if self._attempts.by_token or self._attempts.orphans:
            self._keep_sweeping()
