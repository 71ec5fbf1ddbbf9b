"""Tasks of several processes on several nodes, whose names do not resolve: they find each other all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

MEET = """
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
told = torch.tensor([1 << dist.get_rank()])
dist.all_reduce(told)
with open("seen", "a") as file:
    file.write(f"{os.environ['SLURMD_NODENAME']} {dist.get_world_size()} {told.item()}\\n")
dist.barrier()
os._exit(0)
"""
OURS = """
import os, torch
import torch.distributed as dist
import gpudeck.distributed as gd
session = gd.init()
told = torch.tensor([1 << session.rank])
dist.all_reduce(told)
with open("seen", "a") as file:
    file.write(f"{os.environ['SLURMD_NODENAME']} {session.world_size} {told.item()}\\n")
dist.barrier()
os._exit(0)
"""
FAIL = """
import os, sys
rank = int(os.environ.get("RANK", os.environ["SLURM_PROCID"]))
if rank == 3:
    raise ValueError("bad batch on rank 3")
import time
time.sleep(1000)
"""
STAY = """
import os, time
open(f"stays-{os.environ['RANK']}", "w").write(str(os.getpid()))
time.sleep(1000)
"""
CATCH = """
import os, signal
rank = os.environ.get("RANK", os.environ["SLURM_PROCID"])
def caught(*_):
    with open("caught", "a") as file:
        file.write(f"{rank}\\n")
    os._exit(0)
signal.signal(signal.SIGUSR1, caught)
while True:
    signal.pause()
"""
MET = ["node1 4 15", "node1 4 15", "node2 4 15", "node2 4 15"]


def written(deck: Deck, launch: str, script: str) -> None:
    deck.write(
        f"""
        [deck]
        backend = "slurm"
        [[task]]
        name = "t"
        command = "{{python}} train.py"
        gpus = 2
        cpus = 2
        nodes = 2
        launch = "{launch}"
        """
    )
    (deck.folder / "train.py").write_text(script)


@pytest.mark.parametrize(("launch", "script"), [("torchrun", MEET), ("accelerate", MEET), ("srun", OURS)])
def test_processes_of_two_nodes_meet(deck: Deck, cluster: Cluster, launch: str, script: str) -> None:
    written(deck, launch, script)
    ran = deck.run()
    assert ran.code == 0, ran.out + ran.err
    assert sorted(deck.lines("seen")) == MET


def test_srun_tells_its_ranks_where_the_first_node_is(deck: Deck, cluster: Cluster) -> None:
    written(deck, "srun", 'import os\nopen("seen", "a").write(os.environ["MASTER_ADDR"] + "\\n")\n')
    assert deck.run().code == 0
    assert deck.lines("seen") == ["127.0.0.1"] * 4


def test_srun_tells_its_ranks_where_to_meet_on_one_node_too(deck: Deck, cluster: Cluster) -> None:
    told = '" ".join([os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]])'
    written(deck, "srun", f'import os\nopen("seen", "a").write({told} + "\\n")\n')
    file = deck.folder / "tasks.toml"
    file.write_text(file.read_text().replace("nodes = 2", "nodes = 1"))
    assert deck.run().code == 0
    (place,) = set(deck.lines("seen"))
    assert (place.startswith("127.0.0.1 15"), len(deck.lines("seen"))) == (True, 2)


def test_what_the_task_says_of_the_meeting_point_holds(deck: Deck, cluster: Cluster) -> None:
    written(deck, "srun", 'import os\nopen("seen", "a").write(os.environ["MASTER_ADDR"] + "\\n")\n')
    file = deck.folder / "tasks.toml"
    file.write_text(file.read_text() + 'env = { MASTER_ADDR = "10.0.0.7" }\n')
    assert deck.run().code == 0
    assert deck.lines("seen") == ["10.0.0.7"] * 4


@pytest.mark.parametrize("launch", ["torchrun", "srun"])
def test_the_traceback_of_the_rank_that_failed_is_the_reason(deck: Deck, cluster: Cluster, launch: str) -> None:
    written(deck, launch, FAIL)
    ran = deck.run()
    (end,) = ran.ended("t")
    assert end["reason"] == "rank 3 of 4: exit code 1: ValueError: bad batch on rank 3", ran.out + ran.err


def test_a_cancel_leaves_no_rank_on_any_node(deck: Deck, cluster: Cluster) -> None:
    written(deck, "torchrun", STAY)
    engine = deck.start()
    marks = [deck.folder / f"stays-{rank}" for rank in range(4)]
    until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
    pids = [int(mark.read_text()) for mark in marks]
    assert deck.command("cancel", "t").code == 0
    assert engine.finish().states == {"t": "cancelled"}
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("launch", ["torchrun", "srun"])
def test_a_warning_reaches_the_ranks_of_all_nodes_that_catch_it(deck: Deck, cluster: Cluster, launch: str) -> None:
    written(deck, launch, CATCH)
    file = deck.folder / "tasks.toml"
    file.write_text(file.read_text() + 'timeout = "100s"\nwarn_signal = "USR1"\nwarn_before = "95s"\n')
    ran = deck.run()
    assert (ran.code, sorted(deck.lines("caught"))) == (0, [f"{rank}" for rank in range(4)]), ran.out + ran.err
