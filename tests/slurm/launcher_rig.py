"""A launcher on a real cluster and on a loop of its own, and what it told."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gpudeck.engine.adapters.slurm.launcher import SlurmLauncher
from gpudeck.engine.adapters.slurm.next_step import Limits
from gpudeck.engine.core.inputs import Input, LeaderExited, Pending, Spawned, Submitted, TreeGone
from gpudeck.engine.core.spec import StopScope
from gpudeck.engine.ports import JobOrder, Known, StartOrder
from tests.slurm.rig import Cluster

PATIENCE_S = 20.0
QUICK = Limits(judge_s=0.2, settle_s=2.0, vanished_s=3.0, back_off_s=1.0)

_T = TypeVar("_T", bound=Input)


class Rig:
    """Attempts of one deck. Their output lies in `folder`/logs."""

    def __init__(self, cluster: Cluster, folder: Path, *, limits: Limits = QUICK, **environ: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.control = folder / "logs" / ".jobs"
        self.inputs: list[Input] = []
        self.notes: list[str] = []
        self.limits = limits
        self.environ = {**os.environ, **cluster.env, **environ}
        self.launcher = self.launch()

    def launch(self) -> SlurmLauncher:
        return SlurmLauncher(
            str(self.control),
            self.inputs.append,
            asyncio.get_running_loop(),
            environ=self.environ,
            note=lambda text, _: self.notes.append(text),
            on_network=False,
            limits=self.limits,
        )

    def again(self) -> None:
        """Another engine takes over; what the first told is forgotten."""
        self.launcher.close()
        self.inputs.clear()
        self.launcher = self.launch()

    def order(self, command: str, token: str = "", **job: Any) -> StartOrder:
        """Of *command*, in bash, with an environment of its own."""
        token = token or os.urandom(12).hex()
        logs = self.folder / "logs" / token
        logs.mkdir(parents=True, exist_ok=True)
        values: dict[str, Any] = {
            "task": f"task {token[:4]}", "attempt": 1, "gpus": 1, "nodes": 1, "cpus": 1, "memory_mib": None,
            "limit_s": None, "grace_s": 5.0, "stop_signal": "TERM", "stop_scope": "group", "warn_signal": None,
            "warn_before_s": 0.0, "linger_s": 1.0, "tasks_per_node": 0, "options": {}, "exclude": (),
            "exclusive": False, "script": str(logs / "attempt-1.sh"), "own_env": frozenset[str](),
        }  # fmt: skip
        env = {"PATH": os.environ["PATH"], "GPUDECK_TOKEN": token}
        out, err = str(logs / "attempt-1.log"), str(logs / "attempt-1.err")
        argv = ("/bin/bash", "-c", command)
        return StartOrder(token, argv, env, str(self.folder), out, err, job=JobOrder(**{**values, **job}))

    def start(self, command: str, token: str = "", **job: Any) -> str:
        order = self.order(command, token, **job)
        self.launcher.start(order)
        return order.token

    def stop(self, token: str, *, number: int = signal.SIGTERM, scope: StopScope = "group", grace_s: float = 5) -> None:
        self.launcher.stop(token, signal=number, scope=scope, grace_s=grace_s)

    def log(self, token: str) -> str:
        path = self.folder / "logs" / token / "attempt-1.log"
        return path.read_text() if path.exists() else ""

    def of(self, kind: type[_T], token: str) -> list[_T]:
        """What was told of an attempt, of one kind."""
        return [item for item in self.inputs if isinstance(item, kind) and getattr(item, "token", "") == token]

    def known(self, token: str, job: str = "") -> Known:
        return Known(token, 0, 0, job=job)

    def all_of(self, token: str) -> str:
        """What is known of an attempt, for people."""
        told = [item for item in self.inputs if getattr(item, "token", "") == token]
        files = sorted(path.name for path in self.control.glob(f"{token}.*"))
        return f"told {told}, files {files}, in the queue {self.jobs_named(token)}, notes {self.notes}"

    async def told(self, kind: type[_T], token: str, patience_s: float = PATIENCE_S) -> _T:
        try:
            await until(lambda: self.of(kind, token), patience_s)
        except TimeoutError:
            raise AssertionError(f"{kind.__name__} was not told: {self.all_of(token)}") from None
        return self.of(kind, token)[0]

    async def end(self, token: str, patience_s: float = PATIENCE_S) -> LeaderExited:
        """How it ended; nothing of it is left, and all was told once and in order."""
        await self.told(TreeGone, token, patience_s)
        own = [type(item) for item in self.inputs if getattr(item, "token", "") == token and type(item) is not Pending]
        assert own in ([Submitted, Spawned, LeaderExited, TreeGone], [Spawned, LeaderExited, TreeGone],
                       [Submitted, LeaderExited, TreeGone], [LeaderExited, TreeGone]), own  # fmt: skip
        return self.of(LeaderExited, token)[0]

    async def ended(self, token: str) -> TreeGone:
        """It ended, whether it ever ran or not."""
        gone = await self.told(TreeGone, token)
        await (self.never_ran(token) if gone.never_ran else self.end(token))
        return gone

    async def never_ran(self, token: str) -> TreeGone:
        """It ended without ever having run."""
        gone = await self.told(TreeGone, token)
        assert gone.never_ran
        assert not self.of(LeaderExited, token)
        assert not self.of(Spawned, token)
        return gone

    async def runs(self, token: str) -> Spawned:
        return await self.told(Spawned, token)

    def runs_of(self, token: str) -> int:
        """How often a command that counts itself has run."""
        return len(self.counted(token).read_text().splitlines()) if self.counted(token).exists() else 0

    def counted(self, token: str) -> Path:
        return self.folder / f"{token}.runs"

    def start_counted(self, then: str = "", **job: Any) -> str:
        """A command that leaves a line each time it runs."""
        token = os.urandom(12).hex()
        return self.start(f"echo ran >> {self.counted(token)}; {then}", token, **job)

    def jobs_named(self, token: str) -> list[str]:
        """States of all jobs of an attempt."""
        return [job.state for job in self.cluster.jobs() if token in job.comment]


def on_cluster(body: Callable[[Rig], Coroutine[Any, Any, None]]) -> Callable[[Cluster, Path], None]:
    """Make a test of a coroutine that takes a rig."""

    def test(cluster: Cluster, tmp_path: Path) -> None:
        run(cluster, tmp_path, body)

    test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
    return test


def run(
    cluster: Cluster, folder: Path, body: Callable[[Rig], Coroutine[Any, Any, None]], *,
    limits: Limits = QUICK, environ: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    async def whole() -> None:
        rig = Rig(cluster, folder, limits=limits, **(environ or {}))
        try:
            await body(rig)
        finally:
            rig.launcher.close()

    asyncio.run(whole())


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until *condition* is true."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.01)


def stand_in(folder: Path, program: str, text: str) -> Mapping[str, str]:
    """An environment in which *program* is a script; `$REAL` in it is the true one."""
    real = shutil.which(program)
    assert real is not None
    folder.mkdir(exist_ok=True)
    path = folder / program
    path.write_text(f"#!/bin/bash\nREAL={real}\nHERE={folder}\n{text}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}
