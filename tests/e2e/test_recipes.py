"""The recipes of docs/recipes.md that are programs, or need one, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import optuna

from tests.e2e.decks import Deck, until

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
WANDB = '''
"""Stands for the wandb package, which is large: what the recipe uses of it, offline."""
import json, os, types

def init(config, resume):
    assert (os.environ["WANDB_MODE"], resume) == ("offline", "allow")
    folder = os.path.join(os.environ["WANDB_DIR"], "wandb", f"offline-run-{os.environ['WANDB_RUN_ID']}")
    os.makedirs(folder)
    file = open(os.path.join(folder, "run.json"), "w")
    return types.SimpleNamespace(
        config=types.SimpleNamespace(**config), finish=file.close,
        log=lambda row: print(json.dumps({**row, "group": os.environ["WANDB_RUN_GROUP"]}), file=file))
'''
SYNC = '#!/bin/sh\n[ "$1 $WANDB_MODE" = "sync online" ] || exit 1\nshift; ls -d "$@" >synced\n'
TRAIN = """
import sys
lr = float(sys.argv[2])
print(f"loss={(lr - 0.01) ** 2}")
if lr > 0.5:
    sys.exit("it has diverged")
"""


def blocks(heading: str) -> list[str]:
    """What readers may copy below a heading."""
    part = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\w+\n(.*?)```", part, re.DOTALL)


def test_the_sweep_that_wandb_records_runs_without_a_network(deck: Deck) -> None:
    tasks, train = blocks("A sweep that W&B records")
    deck.write(tasks)
    deck.write(train, "train_wandb.py")
    deck.write(WANDB, "wandb.py")
    (deck.folder / "bin").mkdir()
    deck.write(SYNC, "bin/wandb")
    (deck.folder / "bin" / "wandb").chmod(0o755)
    deck.env["PATH"] = f"{deck.folder / 'bin'}:{deck.env['PATH']}"
    ran = deck.run("--gpus", "sim:4")
    assert set(ran.states.values()) == {"succeeded"}, ran.out
    assert len(deck.lines("synced")) == len(set(deck.lines("synced"))) == 4


def test_optunas_trials_run_as_tasks_and_the_best_of_them_is_told(deck: Deck) -> None:
    (search,) = blocks("Optuna")
    deck.write('[deck]\ngpus = "sim:4"\n')
    deck.write(TRAIN, "train.py")
    deck.write(search, "search.py")
    done = subprocess.run(
        [sys.executable, "search.py"], cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"best: trial-\d+, lr \S+, loss \S+\n", done.stdout)
    assert deck.command("ls").out.count("trial-") == 12
    failed = re.findall(r"trial-(\d+)", deck.command("ls", "state:failed").out)
    study = optuna.load_study(study_name="lr", storage=f"sqlite:///{deck.folder}/study.db")
    told = study.get_trials(states=[optuna.trial.TrialState.FAIL])
    assert sorted(str(trial.number) for trial in told) == sorted(failed) != []


def test_trials_of_a_search_and_an_engine_that_were_killed_are_told_by_the_next_search(deck: Deck) -> None:
    (search,) = blocks("Optuna")
    deck.write('[deck]\ngpus = "sim:4"\n')
    deck.write("open('gate', 'rb', 0).read(1)" + TRAIN, "train.py")
    deck.write(search, "search.py")
    gate = deck.gate()
    words: list[str] = [sys.executable, "search.py"]
    with subprocess.Popen(words, cwd=deck.folder, env=deck.env) as killed:
        until(lambda: deck.command("ls", "state:running").out.count("trial-") == 4)
        killed.kill()
    os.kill(json.loads(deck.command("status", "--json").out)["engine"]["pid"], signal.SIGKILL)
    gate.let(16)
    done = subprocess.run(words, cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = optuna.load_study(study_name="lr", storage=f"sqlite:///{deck.folder}/study.db").trials
    found = {row["name"]: row["state"] for row in json.loads(deck.command("ls", "--json").out)}
    ends = {f"trial-{trial.number}": "succeeded" if trial.state.name == "COMPLETE" else "failed" for trial in told}
    assert (len(ends), ends) == (16, found)
