"""Decks run as jobs of a real Slurm, by the gpudeck command."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.commands.commands_rig import typed
from tests.e2e.decks import Deck, until
from tests.examples.rig import example, run
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

HEAD = """
    [deck]
    backend = "slurm"
"""


# -- order ------------------------------------------------------------------------------------------------------------


def test_rounds_and_needs_hold_and_every_task_is_a_job(deck: Deck, cluster: Cluster):
    deck.write(
        HEAD
        + """
    [[task]]
    name = "make-{i}"
    matrix.i = [0, 1, 2]
    command = "echo make >> order"
    [[task]]
    name = "train"
    round = 1
    gpus = 2
    command = "echo train:$CUDA_VISIBLE_DEVICES >> order"
    [[task]]
    name = "report"
    round = 1
    needs = ["train"]
    gpus = 0
    command = "echo report:$CUDA_VISIBLE_DEVICES >> order"
    """
    )
    ran = deck.run()
    assert ran.code == 0, ran.out + ran.err
    *made, trained, reported = deck.lines("order")
    assert (made, reported) == (["make"] * 3, "report:")
    cards = trained.removeprefix("train:").split(",")  # Slurm chooses which
    assert (len(cards), len(set(cards)), set(cards) <= set("0123")) == (2, 2, True)
    jobs = {row["job"] for row in ran.rows.values()}
    assert jobs <= {job.id for job in cluster.jobs()}
    assert len(jobs) == 5
    assert {tuple(row["nodes"]) for row in ran.rows.values()} <= {("node1",), ("node2",)}
    assert list((deck.folder / "logs" / ".jobs").iterdir()) == []


def test_a_task_waits_for_the_cluster_and_the_deck_says_why(deck: Deck, cluster: Cluster):
    blocker = cluster.submit("sleep 1000", "--nodes=2", "--exclusive")
    until(lambda: [job.state for job in cluster.active()] == ["RUNNING"])
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "true"\n')
    engine = deck.start()
    until(lambda: "Resources" in deck.command("explain", "a").out)
    cluster.cancel(blocker)
    assert engine.finish().states == {"a": "succeeded"}


def test_logs_of_a_job_that_waits_say_why_and_follow_it_once_it_begins(deck: Deck, cluster: Cluster):
    blocker = cluster.submit("sleep 1000", "--nodes=2", "--exclusive")
    until(lambda: [job.state for job in cluster.active()] == ["RUNNING"])
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "echo begun"\n')
    engine = deck.start()
    until(lambda: "Resources" in deck.command("explain", "a").out)
    now = deck.command("logs", "a")
    assert (now.code, now.out) == (1, "")
    assert "gpudeck: a waits: " in now.err
    with typed(deck, "logs", "a", "-f") as terminal:
        terminal.until("gpudeck: a waits: ")
        cluster.cancel(blocker)
        assert engine.finish().states == {"a": "succeeded"}
        assert terminal.finish() == 0
        assert "begun" in terminal.shown


def facts(deck: Deck) -> list[str]:
    """Kinds of the facts on disk."""
    with contextlib.closing(sqlite3.connect(f"file:{deck.folder}/.gpudeck/tasks/deck.db?mode=ro", uri=True)) as db:
        return [kind for (kind,) in db.execute("SELECT kind FROM facts")]


def pending(deck: Deck) -> list[list[str]]:
    """Names and states of what is pending."""
    return [line.split()[:2] for line in deck.command("ls", "state:pending").out.splitlines()[1:]]


def test_what_waits_in_the_queue_is_under_way_for_a_plan_and_pending_for_a_selector(deck: Deck, cluster: Cluster):
    cluster.submit("sleep 1000", "--nodes=2", "--exclusive")
    until(lambda: [job.state for job in cluster.active()] == ["RUNNING"])
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "true"\n[[task]]\nname = "b"\nneeds = ["a"]\ncommand = "true"\n')
    engine = deck.start()
    until(lambda: "PENDING" in {job.state for job in cluster.active()})
    until(lambda: pending(deck) == [["a", "pending"]])
    until(lambda: "AttemptSubmitted" in facts(deck))
    engine.kill()
    assert pending(deck) == [["a", "pending"]]
    assert deck.command("plan", "--only", "state:pending").out.splitlines()[-1] == (
        "nothing would be submitted, 1 under way, 1 left out"
    )


# -- ends -------------------------------------------------------------------------------------------------------------


def test_a_failed_task_has_its_code_its_log_and_where_it_ran(deck: Deck):
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "echo out; echo boom >&2; exit 3"\n')
    ran = deck.run()
    assert ran.code == 1
    (end,) = ran.ended("a")
    assert (end["reason"], end["exit_code"], end["digest"]) == ("exit 3: boom", 3, ["boom"])
    assert (deck.text("logs/a/attempt-1.log"), deck.text("logs/a/attempt-1.err")) == ("out\n", "boom\n")
    record = deck.record("a")
    assert record["nodes"] in (["node1"], ["node2"])
    assert record["job"].isdecimal()


def test_a_task_that_fails_is_repeated_as_another_job(deck: Deck, cluster: Cluster):
    deck.write(
        HEAD
        + """
    [[task]]
    name = "a"
    retries = 1
    backoff = 0
    command = "echo $SLURM_JOB_ID >> jobs; [ $(wc -l < jobs) = 2 ]"
    """
    )
    ran = deck.run()
    assert ran.states == {"a": "succeeded"}, ran.out
    first, second = deck.lines("jobs")
    assert first != second


def test_a_task_near_its_limit_is_warned_and_goes_on_from_its_checkpoint(deck: Deck):
    deck.write(
        HEAD
        + """
    [[task]]
    name = "a"
    timeout = "6s"
    warn_signal = "USR1"
    warn_before = "4s"
    retries = 1
    backoff = 0
    command = "trap 'touch saved.ckpt' USR1; while :; do sleep 0.1; done"
    resume_command = "echo went on"
    resume_when = "*.ckpt"
    """
    )
    ran = deck.run()
    assert ran.states == {"a": "succeeded"}, ran.out
    assert [end["reason"] for end in ran.ended("a")] == ["timeout after 6 s", "ok"]
    assert deck.text("logs/a/attempt-2.log") == "went on\n"


def test_a_job_that_somebody_cancels_counts_as_cancelled(deck: Deck, cluster: Cluster):
    deck.write(HEAD + '[[task]]\nname = "a"\ngrace = "1s"\ncommand = "touch runs; sleep 1000"\n')
    engine = deck.start()
    until((deck.folder / "runs").exists)
    cluster.cancel()
    ran = engine.finish()
    assert ran.states == {"a": "cancelled"}
    assert "scancel" in str(ran.ended("a"))


# -- gpudeck cancel ---------------------------------------------------------------------------------------------------


def test_cancel_ends_a_job_that_runs_with_all_its_processes(deck: Deck, cluster: Cluster):
    deck.write(HEAD + '[[task]]\nname = "a"\ngrace = "1s"\ncommand = "sleep 1000 & touch runs; wait"\n')
    engine = deck.start()
    until((deck.folder / "runs").exists)
    assert deck.command("cancel", "a").code == 0
    assert engine.finish().states == {"a": "cancelled"}
    until(lambda: not cluster.active())
    assert deck.living() == []


def test_cancel_takes_a_job_that_waits_out_of_the_queue(deck: Deck, cluster: Cluster):
    cluster.submit("sleep 1000", "--nodes=2", "--exclusive")
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "touch ran"\n')
    engine = deck.start()
    until(lambda: sorted(job.state for job in cluster.active()) == ["PENDING", "RUNNING"])
    assert deck.command("cancel", "a").code == 0
    assert engine.finish().states == {"a": "cancelled"}
    until(lambda: [job.state for job in cluster.active()] == ["RUNNING"])
    assert not (deck.folder / "ran").exists()


# -- the engine is killed ---------------------------------------------------------------------------------------------


KILLS = 12
TASKS = 60


def test_however_often_the_engine_is_killed_every_task_runs_once(deck: Deck, cluster: Cluster):
    dice = random.Random(0)
    numbers = ", ".join(map(str, range(TASKS)))
    deck.write(
        HEAD
        + f"""
    [slurm]
    max_submitted = 5
    [[task]]
    name = "t-{{i}}"
    matrix.i = [{numbers}]
    gpus = 0
    command = "echo {{i}} $GPUDECK_ATTEMPT >> ran"
    """
    )
    for _ in range(KILLS):
        engine = deck.start()
        engine.event("deck_opened")
        with contextlib.suppress(subprocess.TimeoutExpired):  # some of its sbatch calls are under way then
            engine.process.wait(dice.uniform(0.0, 0.2))
        engine.kill()
    ran = deck.run()
    assert ran.code == 0, ran.out + ran.err
    assert set(ran.states.values()) == {"succeeded"}
    assert Counter(line.split()[0] for line in deck.lines("ran")) == Counter(map(str, range(TASKS)))
    until(lambda: not cluster.active())
    assert len(deck.lines("ran")) == TASKS


def test_what_runs_goes_on_without_an_engine_and_the_next_one_has_its_end(deck: Deck, cluster: Cluster):
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "touch runs; read _ < gate; exit 5"\n')
    gate = deck.gate()
    engine = deck.start()
    until((deck.folder / "runs").exists)
    engine.kill()
    gate.let()
    until(lambda: not cluster.active())
    ran = deck.run()
    assert [end["exit_code"] for end in ran.ended("a")] == [5]
    (job,) = [each for each in cluster.jobs() if each.id == deck.record("a")["job"]]
    assert deck.record("a")["nodes"] == [job.nodes]


# -- the examples -----------------------------------------------------------------------------------------------------


def test_an_example_runs_unchanged(cluster: Cluster, tmp_path: Path):
    with example("ddp", tmp_path) as deck:
        deck.env.update(cluster.env)
        ran = run(deck, "--backend", "slurm", "--set", "epochs=2")
        assert ran.code == 0, ran.out + ran.err
        assert set(ran.states.values()) == {"succeeded"}
