"""What a job is asked for by [slurm] itself, and how many processes share its cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.effects import Launch
from gpudeck.engine.ports import JobOrder
from tests.inside.attempts import Box, LogFolder, Planner, load


def job(folder: Path, body: str = "", slurm: str = "") -> JobOrder:
    path = folder / "tasks.toml"
    path.write_text(f'[deck]\nbackend = "slurm"\n[slurm]\n{slurm}\n[[task]]\nname = "t"\ncommand = ["x"]\n{body}\n')
    deck = build(load(str(path), environ={"PATH": "/bin"}), gpus=(), cores=4)
    box = Box({"PATH": "/bin"}, visible=lambda _: "", index_of={}, cpus_each=1, cores=4)
    launch = Launch("t", 1, "token", (), 0, may_resume=False)
    task, planner = deck.by_name["t"], Planner(deck, LogFolder(deck.settings.log_dir, ["t"]), box)
    found = planner.order(task, planner.plan(task, launch)).job
    assert found is not None
    return found


def test_a_cluster_may_be_asked_for_nodes_alone(tmp_path: Path) -> None:
    assert [job(tmp_path).exclusive, job(tmp_path, slurm="exclusive = true").exclusive] == [False, True]


@pytest.mark.parametrize(
    ("body", "ranks"),
    [("gpus = 4", 1), ('gpus = 4\nlaunch = "srun"', 4), ('gpus = 4\nlaunch = "torchrun"\nnproc = 2', 2)],
)
def test_the_processes_of_a_node_share_its_cores_whoever_starts_them(tmp_path: Path, body: str, ranks: int) -> None:
    assert job(tmp_path, body).ranks == ranks
