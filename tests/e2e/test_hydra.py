"""`python train.py -m hydra/launcher=gpudeck`: Hydra itself, true engines and processes, simulated GPUs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until

TRAIN = """
import os
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="config")
def train(cfg):
    if cfg.gate:
        open("at-the-gate", "x").close()
        open(cfg.gate).readline()
    print(f"::gpudeck loss={cfg.optimizer.lr + cfg.seed}")
    if cfg.seed == 2 and not os.path.exists("mended"):
        raise ValueError(f"seed {cfg.seed} diverged")
    return [os.environ["CUDA_VISIBLE_DEVICES"] != "", cfg.optimizer.lr + cfg.seed]


if __name__ == "__main__":
    train()
"""
CONFIG = "optimizer: {lr: 0.5}\nseed: 0\ngate: ''\n"
SWEEPER = """
from dataclasses import dataclass
from hydra.core.config_store import ConfigStore
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

ConfigStore.instance().store(group="hydra/sweeper", name="telling", node={
    "_target_": "hydra_plugins.telling.TellingSweeper", "max_batch_size": None, "params": None})


class TellingSweeper(BasicSweeper):
    def sweep(self, arguments):
        for job in [job for batch in super().sweep(arguments) for job in batch]:
            print("returned", job.status.name, job.overrides, job.return_value)
"""
LAUNCH = [sys.executable, "train.py", "-m", "hydra/launcher=gpudeck", "hydra/sweeper=telling"]


@pytest.fixture
def project(deck: Deck) -> Deck:
    deck.write(TRAIN, "train.py")
    for folder, name, text in (("conf", "config.yaml", CONFIG), ("hydra_plugins", "telling.py", SWEEPER)):
        (deck.folder / folder).mkdir()
        (deck.folder / folder / name).write_text(text)
    deck.write('[deck]\ngpus = "sim:2"\n')
    return deck


def sweep(deck: Deck, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, *overrides], cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False
    )


def test_the_jobs_of_a_sweep_are_tasks_with_gpus_whose_results_come_back(project: Deck) -> None:
    done = sweep(
        project, "optimizer.lr=0.25,0.5", "+hydra.launcher.keys.priority=1", "hydra.launcher.tags=[first]",
        "hydra.sweep.dir=swept",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.findall("returned .*", done.stdout) == [
        "returned COMPLETED ['optimizer.lr=0.25'] [True, 0.25]",
        "returned COMPLETED ['optimizer.lr=0.5'] [True, 0.5]",
    ]
    rows = json.loads(project.command("ls", "tag:first", "optimizer_lr=0.25", "--json").out)
    assert [(row["name"], row["priority"], row["state"]) for row in rows] == [
        ("train-optimizer.lr=0.25", 1, "succeeded")
    ]
    assert "0.25" in (project.folder / "swept" / "0" / ".hydra" / "config.yaml").read_text()
    assert {row["entry"] for row in rows} == {"train-optimizer.lr={optimizer_lr}"}
    assert "| train-optimizer.lr=0.5 " in project.command("table", "--format", "md").out


def test_jobs_of_overrides_that_the_config_does_not_have_belong_together(project: Deck) -> None:
    assert sweep(project, "+fold=0,1").returncode == 0
    rows = json.loads(project.command("ls", "--json").out)
    assert [(row["name"], row["entry"]) for row in rows] == [
        (f"train-+fold={fold}", "train-+fold={fold}") for fold in (0, 1)
    ]


def test_a_failed_job_raises_and_the_same_sweep_runs_only_what_failed_or_has_another_config(project: Deck) -> None:
    done = sweep(project, "seed=1,2")
    assert (done.returncode, "returned" in done.stdout) == (1, False)
    assert "ValueError: seed 2 diverged" in done.stderr
    project.write("", "mended")
    done = sweep(project, "seed=1,2")
    assert "2 jobs: 0 new, 1 again, 1 done before" in done.stdout
    assert re.findall(r"returned .* (\[.*\])", done.stdout) == ["[True, 1.5]", "[True, 2.5]"]
    rows = json.loads(project.command("ls", "--json").out)
    assert {row["name"]: row["attempt"] for row in rows} == {"train-seed=1": 1, "train-seed=2": 2}
    (project.folder / "conf" / "config.yaml").write_text(CONFIG.replace("0.5", "0.75"))
    assert re.findall(r"returned .* (\[.*\])", sweep(project, "seed=1").stdout) == ["[True, 1.75]"]


def test_ctrl_c_leaves_the_jobs_running_and_the_same_sweep_waits_for_them(project: Deck) -> None:
    gate, command = project.gate(), [*LAUNCH, "gate=gate"]
    first = subprocess.Popen(command, cwd=project.folder, env=project.env, stdout=subprocess.PIPE, text=True)
    until((project.folder / "at-the-gate").exists)
    first.send_signal(signal.SIGINT)
    told, _ = first.communicate(timeout=60)
    assert (first.returncode, "left: the jobs go on" in told) == (130, True)
    gate.let()
    assert "returned COMPLETED ['gate=gate'] [True, 0.5]" in sweep(project, "gate=gate").stdout


def test_a_job_that_is_cancelled_raises_why(project: Deck) -> None:
    project.gate()
    command = [*LAUNCH, "gate=gate"]
    process = subprocess.Popen(command, cwd=project.folder, env=project.env, stderr=subprocess.PIPE, text=True)
    until((project.folder / "at-the-gate").exists)
    project.command("cancel", "gate=gate", "-y")
    _, told = process.communicate(timeout=60)
    assert "JobFailedError: train-gate=gate is cancelled" in told


def test_a_wrong_key_is_told_in_one_line_and_leaves_no_file(project: Deck) -> None:
    Path(project.folder, "tasks.toml").unlink()
    done = sweep(project, "seed=1", "hydra.launcher.timeout=soon")
    told = done.stderr.partition("\n\nSet the environment variable HYDRA_FULL_ERROR")[0]
    assert done.returncode == 1
    assert told.startswith("gpudeck: nothing was added:")
    assert "timeout must be a duration such as " in told
    assert not Path(project.folder, "tasks.toml").exists()
