"""Engines on login nodes: another node goes on where one was lost, and cron may start one at any time."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

WAITING = """
    [deck]
    backend = "slurm"
    [[task]]
    name = "t-{i}"
    matrix.i = [0, 1, 2]
    gpus = 4
    command = "read _ <gate; echo {i} >>ran"
"""
ELSEWHERE = """\
for file in /proc/sys/kernel/random/boot_id /etc/machine-id; do mount --bind "$0" "$file"; done
hostname login2
exec "$@"
"""


def on_other_node(deck: Deck, tmp_path: Path) -> Deck:
    """The same folder, seen from another machine: other names, ids and processes."""
    ids = tmp_path / "ids"
    ids.write_text("9a3bf2f0-15ec-4d43-9a0c-0c7a5dbf9c11\n")
    spaces = ("unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    other = Deck(deck.folder, prefix=(*spaces, "bash", "-c", ELSEWHERE, str(ids), *deck.prefix))
    other.env.update(deck.env)
    return other


def test_an_engine_on_another_login_node_leaves_the_deck_to_the_one_that_runs_it(deck: Deck, tmp_path: Path) -> None:
    deck.write(WAITING)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: engine.count("task_started") == 2)
    refused = on_other_node(deck, tmp_path).run()
    assert (refused.code, refused.out) == (3, "")
    assert f"on {os.uname().nodename}" in refused.err
    gate.let(3)
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["0", "1", "2"]


def test_another_login_node_goes_on_with_jobs_that_wait_and_run_once_the_first_is_lost(
    deck: Deck, cluster: Cluster, tmp_path: Path
) -> None:
    deck.write(WAITING)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: engine.count("task_started") == 2)
    engine.kill()
    before = {job.id for job in cluster.active()}
    other = on_other_node(deck, tmp_path).start()
    gate.let(3)
    ran = other.finish()
    assert (ran.code, set(ran.states.values())) == (0, {"succeeded"}), ran.out + ran.err
    assert {row["job"] for row in ran.rows.values()} == before
    assert sorted(deck.lines("ran")) == ["0", "1", "2"]


def test_a_node_that_is_lost_with_the_deck_s_state_as_it_submits_makes_no_job_run_twice(
    deck: Deck, cluster: Cluster, tmp_path: Path
) -> None:
    deck.write('[deck]\nbackend = "slurm"\n[[task]]\nname = "a"\ngpus = 0\ncommand = "echo a >>ran"\n')
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@" >/dev/null\nkill -9 $PPID\n')
    sbatch.chmod(stat.S_IRWXU)
    lost = deck.start(env={"PATH": f"{sbatch.parent}:{deck.env['PATH']}"})
    assert lost.finish().code == -signal.SIGKILL
    shutil.rmtree(deck.folder / ".gpudeck")
    ran = deck.run("--takeover")
    assert (ran.code, ran.states) == (0, {"a": "succeeded"}), ran.out + ran.err
    until(lambda: not cluster.active())
    assert deck.lines("ran") == ["a"]


def test_an_engine_that_cron_starts_for_a_deck_that_has_ended_ends_and_tells_nothing_again(
    deck: Deck, tmp_path: Path
) -> None:
    deck.write('[deck]\nbackend = "slurm"\n[[task]]\nname = "a"\ngpus = 0\ncommand = "exit 3"\n')
    assert deck.run().code == 1
    told = deck.text("logs/deck.log").count("exit 3")
    cron = {name: deck.env[name] for name in ("SLURM_CONF", "GPUDECK_LOCK_DIR")}
    bare = Deck(deck.folder, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **cron})
    bare.env.update(cron)
    assert bare.command("engine", "tasks.toml").code == 0
    assert deck.text("logs/deck.log").count("exit 3") == told
    assert not (deck.folder / "logs/a/attempt-2.log").exists()


def test_a_shell_that_outlived_its_job_is_told_how_to_run_a_deck_all_the_same(deck: Deck, cluster: Cluster) -> None:
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    over = cluster.submit("true")
    until(lambda: not cluster.active())
    for job in (over, "999999"):
        refused = deck.command("--headless", "tasks.toml", env={"SLURM_JOB_ID": job})
        assert refused.code == 3
        assert f"SLURM_JOB_ID is {job}, and that job is over: `unset SLURM_JOB_ID`" in refused.err
