"""Jobs that are asked to end, at whatever stage they are."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, Submitted
from tests.slurm.launcher_rig import Rig, on_cluster, run, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm


@on_cluster
async def test_a_stop_reaches_the_command_which_ends_as_it_likes(rig: Rig):
    token = rig.start("trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done")
    await until(lambda: rig.log(token) == "up\n")
    rig.stop(token, grace_s=30)
    assert (await rig.end(token)).code == 3
    assert rig.log(token) == "up\nsaved\n"


@on_cluster
async def test_a_command_that_heeds_no_signal_is_killed_after_its_grace(rig: Rig):
    token = rig.start("trap '' TERM; echo up; while :; do sleep 0.1; done")
    await until(lambda: rig.log(token) == "up\n")
    rig.stop(token, grace_s=1)
    assert (await rig.end(token)).code == 128 + signal.SIGKILL


@on_cluster
async def test_a_second_stop_with_less_grace_hastens_the_first(rig: Rig):
    token = rig.start("trap '' TERM; echo up; while :; do sleep 0.1; done")
    await until(lambda: rig.log(token) == "up\n")
    rig.stop(token, grace_s=3000)
    rig.stop(token, number=signal.SIGKILL, grace_s=0)
    assert (await rig.end(token)).code == 128 + signal.SIGKILL


@on_cluster
async def test_a_job_that_waits_ends_at_once_and_leaves_the_queue(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    await rig.told(Pending, token)
    rig.stop(token)
    await rig.never_ran(token)
    await until(lambda: rig.jobs_named(token) == ["CANCELLED"])


@on_cluster
async def test_a_job_that_is_stopped_right_after_its_start_never_runs(rig: Rig):
    token = rig.start_counted()
    rig.stop(token)
    await rig.never_ran(token)
    await until(lambda: "PENDING" not in rig.jobs_named(token))
    assert rig.runs_of(token) == 0


@on_cluster
async def test_a_stop_while_sbatch_is_under_way_leaves_no_job(rig: Rig):
    token = rig.start_counted(options={"extra": ["--hold"]})
    await until(lambda: (rig.folder / "logs" / token / "attempt-1.sh").exists())
    rig.stop(token)
    await rig.never_ran(token)
    await until(lambda: rig.jobs_named(token) in ([], ["CANCELLED"]))


@on_cluster
async def test_many_that_wait_are_stopped_together(rig: Rig):
    tokens = [rig.start("true", gpus=0, options={"array": True, "extra": ["--hold"]}) for _ in range(300)]
    for token in tokens:
        await rig.told(Submitted, token)
    for token in tokens:
        rig.stop(token)
    for token in tokens:
        await rig.never_ran(token)
    await until(lambda: not rig.cluster.active())


@on_cluster
async def test_a_warning_reaches_those_who_catch_it(rig: Rig):
    script = rig.folder / "listens.py"
    script.write_text(
        "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\nprint('up', flush=True)\n"
        "while True: signal.pause()\n"
    )
    token = rig.start(f"exec {sys.executable} {script}")
    await until(lambda: rig.log(token) == "up\n")
    await until(lambda: rig.launcher.warn(token, signal.SIGUSR1) == 1)  # once it has heard that the job runs
    assert (await rig.end(token)).code == 9


def test_a_wrapper_that_hangs_is_ended_by_slurm_after_the_grace(cluster: Cluster, tmp_path: Path):
    from tests.inside.slurm import Limits

    async def body(rig: Rig) -> None:
        pids = rig.folder / "pids"
        token = rig.start(f"echo $PPID > {pids}.new; mv {pids}.new {pids}; sleep 1000")
        await until(pids.exists)
        os.kill(int(pids.read_text()), signal.SIGSTOP)
        rig.stop(token, number=signal.SIGKILL, grace_s=0)
        await rig.end(token)
        await until(lambda: not rig.cluster.active())

    run(cluster, tmp_path, body, limits=Limits(judge_s=0.2, settle_s=1.0, beyond_grace_s=1.0))
