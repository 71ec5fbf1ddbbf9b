"""A launcher on a cluster of paper, with a clock that a test moves; the test plays the nodes, too."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.adapters.host import boottime_s
from gpudeck.engine.adapters.slurm import jobfiles, launcher, submission
from gpudeck.engine.adapters.slurm.launcher import SlurmLauncher
from gpudeck.engine.adapters.slurm.next_step import Limits
from gpudeck.engine.core.inputs import Input, LeaderExited, Pending, Submitted, TreeGone
from gpudeck.engine.ports import StartOrder
from tests.fakes.paper_slurm import PaperSlurm
from tests.slurm.launcher_rig import Rig, until

LIMITS = Limits(
    judge_s=0.01, back_off_s=0.05, longest_back_off_s=0.15, beyond_grace_s=0.1,
    settle_s=50.0, stale_s=900.0, vanished_s=100.0, word_s=150.0, message_timeout_s=100.0,
)  # fmt: skip
"""Short where the loop's own time counts; longer than a test where the clock does, which a test moves."""

_QUICKLY = (
    (launcher, "SHORTEST_S", 0.01), (launcher, "LONGEST_S", 0.03), (launcher, "_SHARE", 0.1),
    (launcher, "_LOOK_S", 0.05), (submission, "_GATHER_S", 0.1), (launcher, "_FORGET_S", 0.02),
    (launcher, "_GATHER_S", 0.02), (launcher, "_ACCOUNTS_S", 0.01),
)  # fmt: skip


class PaperRig(Rig):
    def __init__(self, slurm: PaperSlurm, folder: Path) -> None:
        self.slurm = slurm
        self.folder = folder
        self.control = folder / "logs" / ".jobs"
        self.inputs: list[Input] = []
        self.notes: list[str] = []
        self.limits = LIMITS
        self.environ = {**os.environ, **slurm.env}
        self.ahead_s = 0.0
        self.launcher = self.launch()

    def launch(self) -> SlurmLauncher:
        return SlurmLauncher(
            str(self.control),
            self.inputs.append,
            asyncio.get_running_loop(),
            environ=self.environ,
            note=lambda text, _: self.notes.append(text),
            on_network=False,
            now=lambda: boottime_s() + self.ahead_s,
            limits=self.limits,
        )

    def order(self, command: str, token: str = "", **job: Any) -> StartOrder:
        """Without others in an array, unless a test says so."""
        return super().order(command, token, **{"options": {"array": False}, **job})

    def jobs_named(self, token: str) -> list[str]:
        return self.slurm.states(token)

    async def looks(self, count: int = 3) -> None:
        """Let the queue be looked at so often, and what follows be done."""
        goal = len(self.slurm.calls("squeue")) + count
        await until(lambda: len(self.slurm.calls("squeue")) >= goal)
        await asyncio.sleep(0.03)

    async def later(self, seconds: float) -> None:
        """Time goes by; the queue was looked at before."""
        await self.looks(2)
        self.ahead_s += seconds

    async def submitted(self, **job: Any) -> tuple[str, str]:
        """Start one: its token, and its job's id."""
        token = self.start("true", **job)
        return token, (await self.told(Submitted, token)).job

    # -- what a node does ---------------------------------------------------------------------------------------------

    async def running(self, **job: Any) -> tuple[str, str]:
        """Start one, and begin it."""
        token, number = await self.submitted(**job)
        self.begin(token, number)
        await self.runs(token)
        return token, number

    def begin(self, token: str, number: str, *, wall: float = 0.0) -> None:
        self.claim(token, number)
        self.slurm.row(number, "RUNNING", nodes="node1")
        self.beat(token)
        self.write(token, "began", f"job={number}\nnodes=node1\nwall={wall or ''}\n")

    def claim(self, token: str, number: str) -> None:
        (self.control / f"{token}.claim").write_text(f"{number}\n" if number else "")

    def beat(self, token: str) -> None:
        path = self.control / f"{token}.alive"
        path.touch()
        before = path.stat().st_mtime
        os.utime(path, (before + 5, before + 5))

    def end_with(self, token: str, code: int | str, signal: str = "") -> None:
        self.write(token, "ended", f"code={code}\nwall=\n" + (f"signal={signal}\n" if signal else ""))

    def write(self, token: str, kind: str, text: str) -> None:
        jobfiles.write(str(self.control), token, kind, text)

    def write_elsewhere(self, token: str, kind: str, text: str) -> None:
        """As another machine writes: the kernel of this one tells nothing of it."""
        draft = self.folder / f"{token}.{kind}"
        draft.write_text(text)
        os.link(draft, self.control / draft.name)

    def said(self, token: str, kind: str) -> str:
        """What the engine wrote for it; "" for nothing."""
        with contextlib.suppress(FileNotFoundError):
            return (self.control / f"{token}.{kind}").read_text().strip()
        return ""

    def account(self, token: str, number: str, state: str, *, text: str = "", name: str = "") -> str:
        """A line of sacct. Most clusters keep no *text*, which is the comment. *name*: that of its own job."""
        name = name or f"task-{token[:8]}"
        return f"{number}|{state}|node1|{text}|{name}"

    async def gone_in_time(self, token: str) -> None:
        """Time goes by until its end is told."""

        def over() -> bool:
            self.ahead_s += 2
            return self.over(token)

        await until(over)

    async def over_in_time(self, token: str) -> LeaderExited:
        """How it ended, once enough time has gone by."""
        await self.gone_in_time(token)
        return await self.end(token)

    def over(self, token: str) -> bool:
        """Its end was told."""
        return bool(self.of(TreeGone, token))

    def told_of(self, token: str) -> list[str]:
        """What kinds of things were told of it, but for why it waits."""
        told = [item for item in self.inputs if getattr(item, "token", "") == token]
        return [type(item).__name__ for item in told if not isinstance(item, Pending)]


def on_paper(body: Callable[[PaperRig], Coroutine[Any, Any, None]]) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """Make a test of a coroutine that takes a rig. The queue is looked at all the time."""

    def test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name, seconds in _QUICKLY:
            monkeypatch.setattr(module, name, seconds)
        asyncio.run(_whole(PaperSlurm(tmp_path / "slurm"), tmp_path, body))

    test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
    return test


async def _whole(slurm: PaperSlurm, folder: Path, body: Callable[[PaperRig], Coroutine[Any, Any, None]]) -> None:
    rig = PaperRig(slurm, folder)
    try:
        await body(rig)
    finally:
        rig.launcher.close()
        slurm.close()
