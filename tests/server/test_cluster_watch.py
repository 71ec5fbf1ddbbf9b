"""How full a cluster is, asked while somebody wants to know. Slurm's programs are scripts here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.inside.server import PERIOD_S, ClusterWatch

SINFO = "gpu*|up|idle|2|4/12/0/16|gpu:4|gpu:1|"


class Slurm:
    """`sinfo` and `squeue` that count how often they are asked, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 100.0
        self.says("sinfo", f"echo x >>{folder}/asked; echo '{SINFO}'")
        self.says("squeue", "echo '1|RUNNING|gpu'")
        self.watch = ClusterWatch(
            asyncio.get_running_loop(), {"PATH": f"{folder}:/usr/bin:/bin"}, now=lambda: self.now_s
        )

    def says(self, program: str, text: str) -> None:
        path = self.folder / program
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def asked(self) -> int:
        path = self.folder / "asked"
        return len(path.read_text().split()) if path.exists() else 0


@asynccontextmanager
async def on_slurm(folder: Path) -> AsyncGenerator[Slurm]:
    slurm = Slurm(folder)
    yield slurm
    slurm.watch.close()


async def test_who_wants_it_now_is_told_of_partitions_and_jobs(tmp_path: Path) -> None:
    async with on_slurm(tmp_path) as slurm:
        view = await slurm.watch.fresh()
        assert [(each.name, each.gpus_free, each.gpus_total) for each in view.partitions] == [("gpu", 6, 8)]
        assert ([job.id for job in view.jobs], view.problem) == (["1"], "")


async def test_nobody_asks_while_nobody_looks(tmp_path: Path) -> None:
    async with on_slurm(tmp_path) as slurm:
        assert slurm.asked == 0


async def test_a_look_returns_at_once_with_what_is_known(tmp_path: Path) -> None:
    async with on_slurm(tmp_path) as slurm:
        assert slurm.watch.look().at == 0
        await slurm.watch.fresh()
        assert slurm.watch.look().at > 0


async def test_it_is_asked_once_in_ten_seconds_however_often_it_is_looked_at(tmp_path: Path) -> None:
    async with on_slurm(tmp_path) as slurm:
        for _ in range(5):
            await slurm.watch.fresh()
        assert slurm.asked == 1
        slurm.now_s += PERIOD_S
        await slurm.watch.fresh()
        assert slurm.asked == 2


async def test_a_slurm_that_fails_keeps_what_was_told_and_says_why(tmp_path: Path) -> None:
    async with on_slurm(tmp_path) as slurm:
        before = await slurm.watch.fresh()
        slurm.says("sinfo", "echo 'Unable to contact slurm controller' >&2; exit 1")
        slurm.now_s += PERIOD_S
        view = await slurm.watch.fresh()
        assert (view.partitions, view.at) == (before.partitions, before.at)
        assert view.problem == "sinfo: Unable to contact slurm controller"
