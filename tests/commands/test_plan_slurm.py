"""`gpudeck plan --backend slurm`: the script of each job, on a machine without Slurm."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.decks import Deck

TWO = """
    [slurm]
    partition = "gpu"
    time = "2h"
    [[task]]
    name = "train"
    gpus = 2
    nodes = 2
    command = "python train.py"
    outputs = ["model.pt"]
    [[task]]
    name = "gather"
    gpus = 0
    needs = ["train"]
    command = "true"
"""


def planned(deck: Deck, *words: str) -> dict[str, dict[str, Any]]:
    done = deck.command("plan", "--backend", "slurm", "--json", *words)
    assert done.code == 0, done.err
    return {row["task"]: row for row in json.loads(done.out)}


def test_the_script_asks_for_what_task_and_table_say(deck: Deck) -> None:
    deck.write(TWO)
    header = [line for line in planned(deck)["train"]["script"].splitlines() if line.startswith("#SBATCH")]
    assert {"#SBATCH --partition=gpu", "#SBATCH --time=120", "#SBATCH --nodes=2", "#SBATCH --gres=gpu:2"} <= set(header)


def test_a_job_waits_for_what_its_task_needs(deck: Deck) -> None:
    deck.write(TWO)
    assert planned(deck)["gather"]["after_ok"] == ["train"]


def test_what_is_done_has_no_script(deck: Deck) -> None:
    deck.write(TWO)
    (deck.folder / "model.pt").write_text("weights")
    rows = planned(deck)
    assert (rows["train"]["state"], rows["train"]["script"], rows["gather"]["after_ok"]) == ("done earlier", "", [])


def test_what_is_left_out_has_no_script(deck: Deck) -> None:
    deck.write(TWO)
    assert planned(deck, "--only", "train")["gather"]["state"] == "left out"


def test_the_backend_of_the_file_is_enough(deck: Deck) -> None:
    deck.write('[deck]\nbackend = "slurm"\n[[task]]\nname = "a"\ncommand = "true"\n')
    done = deck.command("plan")
    assert (done.code, "#!/bin/bash" in done.out, done.out.splitlines()[-1]) == (
        0,
        True,
        "1 of 1 tasks would be submitted",
    )


def test_keys_in_the_environment_are_not_shown(deck: Deck) -> None:
    deck.write(TWO)
    done = deck.command("plan", "--backend", "slurm", "--only", "train", env={"WANDB_API_KEY": "sesame-open"})
    assert "WANDB_API_KEY" in done.out
    assert "sesame-open" not in done.out


def test_of_several_jobs_is_shown_what_they_ask_for_and_run_without_the_shell_around_it(deck: Deck) -> None:
    deck.write(TWO)
    lines = deck.command("plan", "--backend", "slurm").out.splitlines()
    assert (len(lines) < 40, "#SBATCH --gres=gpu:2" in lines, "python train.py" in "\n".join(lines)) == (
        True,
        True,
        True,
    )
    assert "gd_environment" not in "\n".join(lines)


def test_nothing_is_made_by_planning(deck: Deck) -> None:
    deck.write(TWO)
    planned(deck)
    assert [path.name for path in deck.folder.iterdir()] == ["tasks.toml"]


def test_a_list_of_nodes_for_a_task_of_one_is_passed_over_and_told(deck: Deck) -> None:
    deck.write(TWO.replace("nodes = 2", 'slurm = { nodelist = "node1,node2" }'))
    done = deck.command("plan", "--backend", "slurm")
    assert ("--nodelist" in done.out, "warning: train: slurm.nodelist names several nodes" in done.out) == (False, True)


def test_a_partition_that_slurm_does_not_know_is_told_where_slurm_is(deck: Deck) -> None:
    deck.write(TWO)
    programs = deck.folder / "programs"
    programs.mkdir()
    sinfo = programs / "sinfo"
    sinfo.write_text("#!/bin/sh\necho cpu\necho gpus\n")
    sinfo.chmod(0o755)
    done = deck.command("plan", "--backend", "slurm", env={"PATH": f"{programs}:{deck.env['PATH']}"})
    assert done.code == 0
    told = "warning: partition gpu is not known to Slurm here: did you mean gpus?"
    assert told in done.out.splitlines()
    done = deck.command("check", "--backend", "slurm", env={"PATH": f"{programs}:{deck.env['PATH']}"})
    assert (done.code, told in done.out.splitlines()) == (0, True)
    sinfo.write_text("#!/bin/sh\necho no answer >&2; exit 1\n")
    done = deck.command("plan", "--backend", "slurm", env={"PATH": f"{programs}:{deck.env['PATH']}"})
    assert (done.code, "not known" in done.out) == (0, False)


def test_the_ranks_of_all_nodes_are_told(deck: Deck) -> None:
    task = 'name = "a"\ncommand = "true"\nnodes = 2\ngpus = 2\nlaunch = "torchrun"\n'
    deck.write(f'[deck]\nbackend = "slurm"\n[[task]]\n{task}')
    assert re.search(r"launch +4 ranks", deck.command("show", "a").out)
