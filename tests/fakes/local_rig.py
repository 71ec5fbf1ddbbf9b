"""A real launcher on a loop of its own, with real processes, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.processes.launcher import LocalLauncher, become_subreaper
from gpudeck.engine.core.inputs import Input, LeaderExited, TreeGone
from gpudeck.engine.core.spec import Leftovers
from gpudeck.engine.ports import StartOrder
from tests.rigs.entered import entered

PATIENCE_S = 30.0
PYTHON = sys.executable


class Rig:
    """A launcher, what it posted, and the folder that its attempts run in."""

    def __init__(self, folder: Path, **options: Any) -> None:
        become_subreaper()
        self.folder = folder
        self.options = options
        self.inputs: list[Input] = []
        self.pids: dict[str, int] = {}
        self.ticks: dict[str, int] = {}
        self.launcher = self._launch()

    def start(
        self,
        *argv: str,
        token: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        leftovers: Leftovers = "stop",
        log: str = "",
        gpus: Sequence[str] = (),
        container: str = "",
    ) -> str:
        """Start an attempt and return its token."""
        token = token or self.token(len(self.pids))
        whole = {**os.environ, "GPUDECK_TOKEN": token, **(env or {})}
        out, err = log or str(self.out(token)), log or str(self.err(token))
        order = StartOrder(token, argv, whole, cwd or str(self.folder), out, err, leftovers, tuple(gpus))
        order = replace(order, container=container)
        self.pids[token], self.ticks[token] = self.launcher.start(order)
        return token

    @staticmethod
    def token(number: int) -> str:
        """The token of the attempt that is started as the *number*-th; unlike that of any other test run."""
        return f"token{number}-{os.getpid()}"

    def out(self, token: str) -> Path:
        return self.folder / f"{token}.log"

    def err(self, token: str) -> Path:
        return self.folder / f"{token}.err"

    def record(self, token: str) -> Path:
        return self.folder / "attempts" / token

    def leader(self, token: str) -> LeaderExited | None:
        return next((i for i in self.inputs if isinstance(i, LeaderExited) and i.token == token), None)

    def tree(self, token: str) -> TreeGone | None:
        return next((i for i in self.inputs if isinstance(i, TreeGone) and i.token == token), None)

    async def leader_end(self, token: str) -> LeaderExited:
        await until(lambda: self.leader(token))
        found = self.leader(token)
        assert found is not None
        return found

    async def tree_end(self, token: str) -> TreeGone:
        await until(lambda: self.tree(token))
        found = self.tree(token)
        assert found is not None
        return found

    async def code(self, *argv: str, **options: Any) -> int | None:
        """Run to the end; the exit code."""
        token = self.start(*argv, **options)
        await self.tree_end(token)
        return (await self.leader_end(token)).code

    async def text(self, token: str) -> str:
        """What an attempt printed, once it has printed a whole line."""
        await until(lambda: self.out(token).exists() and self.out(token).read_text().endswith("\n"))
        return self.out(token).read_text()

    async def pid_from(self, token: str) -> int:
        """The pid that an attempt printed as its first line."""
        return int((await self.text(token)).split()[0])

    async def knows_command(self, token: str) -> None:
        """Wait until the launcher knows the wrapper's child by its pid."""
        attempt = self.launcher._attempts.by_token[token]  # no port tells this
        await until(lambda: attempt.command)

    def replace_launcher(self, **options: Any) -> None:
        """A new engine: the old launcher lets go of everything."""
        self.launcher.close()
        self.options = options
        self.inputs.clear()
        self.launcher = self._launch()

    async def clean_up(self) -> None:
        """End what still runs, the launcher last."""
        for token in self.pids:
            self.launcher.stop(token, signal=signal.SIGKILL, scope="group", grace_s=0)
        await until(lambda: not self.launcher.members())
        self.launcher.close()

    def _launch(self) -> LocalLauncher:
        options = {"claims": claims(self.folder), "look": lambda _: (), **self.options}
        folder = str(self.folder / "attempts")
        return LocalLauncher(folder, self.inputs.append, asyncio.get_running_loop(), **options)


def claims(folder: Path, deck: str = "ours") -> Claims:
    """Of a deck on the box whose locks lie in *folder*."""
    return Claims(deck, str(folder / deck), str(folder / "locks"), pytest.fail)


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until *condition* is true."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.005)


def launched(body: Any = None, **options: Any) -> Any:
    """Make a test of a coroutine that takes a rig, whose launcher may have options."""

    @contextlib.asynccontextmanager
    async def enter(folder: Path) -> AsyncGenerator[Rig]:
        rig = Rig(folder, **options)
        try:
            yield rig
        finally:
            await rig.clean_up()

    return entered(enter) if body is None else entered(enter)(body)


def kill(pid: int) -> None:
    """End a process that a test left alive on purpose."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end_children(but: Collection[int]) -> None:
    """End and reap all children of this process, and what becomes its child by that, except these."""
    while left := set(proc.own_children()).difference(but):
        for pid in left:
            kill(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def lives(pid: int) -> bool:
    process = proc.stat(pid)
    return process is not None and process.live


def caught(pid: int, number: int) -> bool:
    """Whether a process has come as far as to install its handler."""
    return proc.catches(pid, number)
