"""gpudeck started inside a job: the allocation's nodes and GPUs are its own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.decks import Deck, until
from tests.slurm.rig import Cluster, running_cluster

pytestmark = pytest.mark.slurm

SAYS = "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES >>{file}"


def inside(cluster: Cluster, deck: Deck, *options: str, then: str = "") -> str:
    """`gpudeck --headless` as a batch job; its id."""
    command = shlex.join([*deck.prefix, "--headless", "tasks.toml"])
    script = f"cd {shlex.quote(str(deck.folder))}; {command} >engine.out 2>&1; echo $? >engine.code; {then}"
    return cluster.submit(script, "--nodes=2", "--cpus-per-task=4", f"--output={deck.folder}/job.out", *options)


def ended(deck: Deck) -> int:
    """The engine's exit code, once it is there."""
    code = Path(deck.folder, "engine.code")
    until(lambda: code.exists() and code.read_text().strip())
    return int(code.read_text())


def rows(deck: Deck) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(deck.command("ls", "--json").out)}


def said(deck: Deck) -> str:
    return Path(deck.folder, "engine.out").read_text()


def test_tasks_run_on_all_nodes_of_the_allocation_each_on_gpus_of_its_own(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3]
        command = '''
            echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES >>seen
            until [ $(wc -l <seen) -ge 4 ]; do sleep 0.1; done
        '''
        """
    )
    inside(cluster, deck, "--gres=gpu:2")
    assert ended(deck) == 0, said(deck)
    assert sorted(deck.lines("seen")) == ["node1:0", "node1:1", "node2:0", "node2:1"]


def test_a_task_on_several_gpus_has_them_on_one_node(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "one"
        command = "until [ -e gang ]; do sleep 0.1; done"
        [[task]]
        name = "gang"
        gpus = 2
        command = "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES >gang"
        """
    )
    inside(cluster, deck, "--gres=gpu:2")
    assert ended(deck) == 0, said(deck)
    assert deck.lines("gang") == ["node2:0,1"]


def test_a_task_on_another_node_that_fails_tells_its_code_and_its_last_words(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1]
        command = "echo ValueError: bad batch >&2; exit 3"
        """
    )
    inside(cluster, deck, "--gres=gpu:1")
    assert ended(deck) == 1, said(deck)
    assert [row["reason"] for row in rows(deck).values()] == ["exit 3: ValueError: bad batch"] * 2


def test_a_task_on_another_node_gets_its_grace_to_end_in(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [deck]
        gpus = [1]
        [[task]]
        name = "t"
        timeout = "2s"
        grace = "50s"
        command = "trap 'echo saved >>seen; exit 0' TERM; while :; do sleep 0.2; done"
        """
    )
    inside(cluster, deck, "--gres=gpu:1")
    assert ended(deck) == 1, said(deck)
    assert deck.lines("seen") == ["saved"]
    assert rows(deck)["t"]["kind"] == "timeout"


def test_more_gpus_than_any_node_of_the_allocation_has_are_refused_before_anything_runs(
    deck: Deck, cluster: Cluster
) -> None:
    deck.write('[[task]]\nname = "t"\ngpus = 3\ncommand = "true"\n')
    inside(cluster, deck, "--gres=gpu:2")
    assert ended(deck) == 2
    assert 'task "t": gpus = 3, and a task\'s GPUs are all on one node: none of the job has more than 2' in said(deck)


def test_a_task_without_gpus_sees_none(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "t"
        gpus = 0
        command = 'echo "<${CUDA_VISIBLE_DEVICES-unset}>" >seen'
        """
    )
    inside(cluster, deck, "--gres=gpu:2")
    assert ended(deck) == 0, said(deck)
    assert deck.lines("seen") == ["<>"]


def test_standard_error_of_a_task_on_another_node_is_what_it_wrote(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "{end}"
        matrix.end = ["ends", "fails", "is-killed", "is-stopped"]
        gpus = 0
        cpus = 4
        timeout = "4s"
        command = '''
            echo {end} >&2
            case {end} in fails) exit 3;; is-killed) kill -9 $$;; is-stopped) sleep 100;; esac
        '''
        """
    )
    inside(cluster, deck, "--gres=gpu:1")
    assert ended(deck) == 1, said(deck)
    names = ("ends", "fails", "is-killed", "is-stopped")
    *others, stopped = (deck.text(f"logs/{name}/attempt-1.err") for name in names)
    assert others == [f"{name}\n" for name in names[:-1]]
    # Of the step that is stopped Slurm may say so itself, behind what that wrote.
    assert re.fullmatch(
        r"is-stopped\n(slurmstepd-\w+: error: \*\*\* STEP \S+ ON \w+ CANCELLED AT \S+ \*\*\*\n)?", stopped
    )
    assert [row["kind"] for row in rows(deck).values()] == ["ok", "exit", "signal", "timeout"]


def test_a_job_that_asked_for_gpus_of_any_type_uses_them_on_all_of_its_nodes(tmp_path: Path) -> None:
    deck = Deck(tmp_path)
    with running_cluster(NODES=2, GPUS=2, CPUS=4, KILL_WAIT=2, GPU_TYPES="a100") as cluster:
        deck.env.update(cluster.env)
        deck.write('[[task]]\nname = "t{i}"\nmatrix.i = [0, 1, 2, 3]\ncommand = "echo $SLURMD_NODENAME >>seen"\n')
        inside(cluster, deck, "--gres=gpu:2")
        assert ended(deck) == 0, said(deck)
    deck.close()
    assert len(deck.lines("seen")) == 4


def test_ranks_that_srun_starts_share_the_cores_of_their_task(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1]
        gpus = 2
        launch = "srun"
        command = "echo $SLURMD_NODENAME $SLURM_CPUS_PER_TASK $MASTER_ADDR ${MASTER_PORT:+port} >>seen"
        """
    )
    inside(cluster, deck, "--gres=gpu:2")
    assert ended(deck) == 0, said(deck)
    assert sorted(deck.lines("seen")) == [f"node{n} 2 127.0.0.1 port" for n in (1, 1, 2, 2)]
