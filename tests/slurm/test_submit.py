"""`gpudeck submit` on a real Slurm: jobs that wait for each other, each submitted once, by a script of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.decks import Deck, Ran, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

CHAIN = """
    [slurm]
    time = "5m"
    [[task]]
    name = "train-{i}"
    matrix.i = [1, 2]
    gpus = 2
    command = "echo gpus $CUDA_VISIBLE_DEVICES; echo train-{i} >>ran"
    [[task]]
    name = "gather"
    gpus = 0
    needs = ["train-*"]
    command = "echo gather >>ran"
"""


def submit(deck: Deck, *words: str) -> Ran:
    return deck.command("submit", *words)


def again(deck: Deck, folder: str = "slurm") -> Ran:
    """submit.sh by hand."""
    done = subprocess.run(
        ["bash", f"{folder}/submit.sh"], cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def states(cluster: Cluster) -> dict[str, str]:
    """By task; the newest job of each."""
    return {
        job.name.rpartition("-")[0]: job.state
        for job in sorted(cluster.jobs(), key=lambda job: int(job.id.split("_")[0]))
    }


def over(cluster: Cluster) -> dict[str, str]:
    until(lambda: not cluster.active())
    return states(cluster)


def told(deck: Deck) -> dict[str, Any]:
    done = submit(deck, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_jobs_run_behind_what_they_need(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    done = submit(deck, "--go")
    assert done.code == 0, done.out + done.err
    over(cluster)
    lines = deck.lines("ran")
    assert sorted(lines[:2]) == ["train-1", "train-2"]
    assert lines[2:] == ["gather"]


def test_logs_lie_where_the_deck_would_have_them(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    submit(deck, "--go")
    over(cluster)
    assert deck.text("logs/train-1/latest.log").startswith("gpus ")


def test_a_second_call_of_the_script_submits_nothing(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    submit(deck, "--go")
    assert again(deck).out.splitlines() == ["submitted 0, submitted earlier 3, not submitted 0"]
    over(cluster)
    assert len(deck.lines("ran")) == 3


def test_a_submission_whose_answer_was_lost_is_found_by_its_name(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    submit(deck, "--go")
    for job in cluster.jobs():
        sent = deck.folder / "logs/.jobs" / f"{job.comment.removeprefix('gpudeck ')}.sent"
        sent.write_text(f"?{job.name}\n")
    assert again(deck).out.splitlines() == ["submitted 0, submitted earlier 3, not submitted 0"]
    over(cluster)
    assert len(deck.lines("ran")) == 3


def test_what_needs_a_failed_job_never_runs(deck: Deck, cluster: Cluster) -> None:
    deck.write("""
        [defaults]
        gpus = 0
        [[task]]
        name = "bad"
        command = "exit 3"
        [[task]]
        name = "needing"
        needs = ["bad"]
        command = "echo needing >>ran"
        [[task]]
        name = "following"
        after = ["bad"]
        command = "echo following >>ran"
    """)
    submit(deck, "--go")
    found = over(cluster)
    assert (found["bad"], found["needing"], deck.lines("ran")) == ("FAILED", "CANCELLED", ["following"])


def test_a_failed_job_is_written_anew_and_a_good_one_is_not(deck: Deck, cluster: Cluster) -> None:
    deck.write("""
        [defaults]
        gpus = 0
        [[task]]
        name = "good"
        command = "echo good >>ran"
        [[task]]
        name = "bad"
        needs = ["good"]
        command = "echo bad >>ran; test -e mended"
    """)
    submit(deck, "--go")
    over(cluster)
    (deck.folder / "mended").touch()
    written = told(deck)
    assert (written["done"], [task["task"] for job in written["jobs"] for task in job["tasks"]]) == (["good"], ["bad"])
    assert again(deck).out.splitlines()[-1] == "submitted 1, submitted earlier 0, not submitted 0"
    over(cluster)
    assert (deck.lines("ran"), (deck.folder / "logs/bad/attempt-2.log").exists()) == (["good", "bad", "bad"], True)


def test_a_need_that_succeeded_as_a_job_may_be_left_out(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    submit(deck, "--go")
    over(cluster)
    done = submit(deck, "--only", "gather", "--no-skip-existing", "--go")
    over(cluster)
    assert (done.code, deck.lines("ran")[2:]) == (0, ["gather", "gather"])


def test_a_job_on_its_way_is_not_written_again_and_others_wait_for_it(deck: Deck, cluster: Cluster) -> None:
    deck.write("""
        [defaults]
        gpus = 0
        [[task]]
        name = "slow"
        command = "read _ <gate; echo slow >>ran"
    """)
    gate = deck.gate()
    submit(deck, "--go")
    with (deck.folder / "tasks.toml").open("a") as file:
        file.write('[[task]]\nname = "behind"\nneeds = ["slow"]\ncommand = "echo behind >>ran"\n')
    assert told(deck)["in_flight"] == ["slow"]
    again(deck)
    gate.let()
    over(cluster)
    assert deck.lines("ran") == ["slow", "behind"]


def test_a_job_that_was_cancelled_before_it_began_is_written_again(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    until(lambda: not cluster.active())
    cluster.call("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        submit(deck, "--go")
        cluster.cancel()
    finally:
        cluster.call("scontrol", "update", "PartitionName=main", "State=UP")
    assert len(told(deck)["jobs"]) == 3


def test_equal_tasks_are_one_array_that_holds_max_parallel(deck: Deck, cluster: Cluster) -> None:
    deck.write("""
        [slurm]
        array = true
        [[task]]
        name = "part-{i}"
        matrix.i = [1, 2, 3]
        gpus = 1
        max_parallel = 2
        command = "echo {i} >>ran"
        [[task]]
        name = "gather"
        gpus = 0
        needs = ["part-*"]
        command = "echo gather >>ran"
    """)
    written = told(deck)
    assert [len(job["tasks"]) for job in written["jobs"]] == [3, 1]
    assert "#SBATCH --array=0-2%2" in Path(written["jobs"][0]["script"]).read_text()
    again(deck)
    over(cluster)
    lines = deck.lines("ran")
    assert (sorted(lines[:3]), lines[3:]) == (["1", "2", "3"], ["gather"])


def test_a_refusal_is_told_and_tried_again_by_the_next_call(deck: Deck, cluster: Cluster) -> None:
    deck.write('[slurm]\npartition = "nowhere"\n[[task]]\nname = "a"\ngpus = 0\ncommand = "echo a >>ran"\n')
    refused = submit(deck, "--go")
    assert (refused.code, "not submitted: a: " in refused.out, "partition" in refused.out) == (1, True, True)
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "echo a >>ran"\n')
    assert submit(deck, "--go").code == 0
    over(cluster)
    assert deck.lines("ran") == ["a"]


def test_the_scripts_need_no_gpudeck(deck: Deck, cluster: Cluster, tmp_path: Path) -> None:
    deck.write(CHAIN)
    submit(deck)
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **cluster.env}
    subprocess.run(["bash", "slurm/submit.sh"], cwd=deck.folder, env=bare, check=True)
    found = over(cluster)
    assert [found[name] for name in ("train-1", "train-2", "gather")] == ["COMPLETED"] * 3


def test_an_engine_takes_over_what_was_submitted(deck: Deck, cluster: Cluster) -> None:
    deck.write(CHAIN)
    submit(deck, "--go")
    ran = deck.run("--backend", "slurm")
    assert (ran.code, len(deck.lines("ran"))) == (0, 3)


def test_an_engine_takes_over_what_was_submitted_with_other_values(deck: Deck, cluster: Cluster) -> None:
    deck.write(f'[vars]\nword = "here"\n{CHAIN}'.replace("echo", "echo {word}", 1))
    submit(deck, "word=there", "--go")
    ran = deck.run("word=there", "--backend", "slurm")
    assert (ran.code, len(deck.lines("ran"))) == (0, 3)
