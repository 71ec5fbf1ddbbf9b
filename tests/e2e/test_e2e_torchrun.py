"""launch = "torchrun": a rank's log is its own, the first rank that fails is the reason, and nothing outlives its end.

torchrun itself is real everywhere; ranks import torch only where they have to meet.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Gate, lives, until

pytestmark = pytest.mark.torchrun

PYTHON = f'python = "{sys.executable}"'
HEAD = f"""
[deck]
gpus = "none"
cpu_slots = 2
[defaults]
gpus = 0
nproc = 2
launch = "torchrun"
{PYTHON}
"""

MEETS = """
import gc, os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
print(f"step 1 of rank {rank}", flush=True)
print(f"warning of rank {rank}", file=sys.stderr, flush=True)
total = torch.ones(1)
dist.all_reduce(total)
if "fail" in sys.argv and rank == 1:
    print("Traceback (most recent call last):\\n  File \\"t.py\\", line 1, in <module>", file=sys.stderr)
    print("RuntimeError: bad batch 7", file=sys.stderr, flush=True)
    os._exit(1)
dist.all_reduce(total)
print(f"sum {int(total)}", flush=True)
gc.collect()
dist.destroy_process_group()
"""

TRAPS = """
import os, signal, sys, time

with open(f"pids.{os.environ['RANK']}", "a") as file:
    file.write(f"{os.getpid()}\\n")
if "deaf" in sys.argv:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
print("up", os.environ["RANK"], flush=True)
with open("gate." + os.environ["RANK"]) as gate:
    gate.readline()
print("through", os.environ["RANK"], flush=True)
"""


def entry(name: str, command: str, more: str = "") -> str:
    return f'[[task]]\nname = "{name}"\ncommand = {json.dumps(command)}\n{more}\n'


def gates_of(deck: Deck) -> list[Gate]:
    """One for each rank."""
    return [deck.gate(f"gate.{rank}") for rank in (0, 1)]


def waiting_ranks(deck: Deck) -> list[int]:
    """Their pids, once both are up."""
    until(lambda: deck.lines("pids.0") and deck.lines("pids.1"))
    return [int(deck.lines(f"pids.{rank}")[-1]) for rank in (0, 1)]


def launcher_of(deck: Deck, ranks: list[int]) -> int:
    """The process that started them."""
    return int(Path(f"/proc/{ranks[0]}/stat").read_text().rpartition(")")[2].split()[1])


def write(deck: Deck, *entries: str, head: str = HEAD) -> None:
    deck.write(head + "\n".join(entries))
    (deck.folder / "meets.py").write_text(MEETS)
    (deck.folder / "traps.py").write_text(TRAPS)


def test_two_tasks_at_once_meet_apart_and_the_first_failing_rank_is_the_reason(deck: Deck) -> None:
    write(
        deck,
        "[distributed]\nstrategy = 'ddp'\ntimeout = '10m'\n",
        entry("good", "{python} meets.py; echo $GPUDECK_DIST_STRATEGY $GPUDECK_DIST_TIMEOUT $OMP_NUM_THREADS"),
        entry("bad", "{python} meets.py fail", 'stderr = "merge"'),
    )
    ran = deck.run()
    assert ran.states == {"good": "succeeded", "bad": "failed"}
    assert deck.lines("logs/good/attempt-1.log") == ["step 1 of rank 0", "sum 4", "ddp 600 1"]
    assert deck.lines("logs/good/attempt-1.rank1.log") == ["step 1 of rank 1", "sum 4", "ddp 600 1"]
    assert "warning of rank 1" not in deck.text("logs/good/attempt-1.err")
    assert "warning of rank 1" in deck.text("logs/good/attempt-1.rank1.err")
    assert "warning of rank 1" in deck.text("logs/bad/attempt-1.rank1.log")
    assert not (deck.folder / "logs/bad/attempt-1.rank1.err").exists()
    (end,) = ran.ended("bad")
    assert end["reason"] == "rank 1 of 2: exit code 1: RuntimeError: bad batch 7"
    assert deck.record("bad")["end"]["reason"] == end["reason"]
    assert deck.record("bad")["ranks"] == 2
    assert deck.record("bad")["launched"][1:6] == [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    assert deck.record("bad")["env"]["TORCHELASTIC_ERROR_FILE"].endswith("/logs/bad/attempt-1.error.json")
    assert "rank 1 of 2: exit code 1: RuntimeError: bad batch 7" in deck.command("explain", "bad").out
    assert "torch.distributed.run" in deck.command("show", "bad").out


def test_a_cancel_leaves_no_rank_also_of_those_that_are_deaf_to_it(deck: Deck) -> None:
    gates_of(deck)
    write(deck, entry("deaf", "{python} traps.py deaf", 'grace = "3s"'))
    engine = deck.start()
    ranks = waiting_ranks(deck)
    assert deck.command("cancel", "deaf", "-y").code == 0
    engine.ended("deaf")
    assert not any(lives(pid) for pid in ranks)
    assert deck.living() == []
    assert engine.finish().states == {"deaf": "cancelled"}


def test_a_timeout_leaves_no_rank(deck: Deck) -> None:
    gates_of(deck)
    write(deck, entry("slow", "{python} traps.py", 'timeout = "6s"\ngrace = "5s"'))
    ran = deck.run()
    assert ran.ended("slow")[0]["reason"] == "timeout after 6 s"
    assert deck.living() == []


def test_ranks_do_not_outlive_a_launcher_that_was_killed_and_their_slot_is_free_then(deck: Deck) -> None:
    gates_of(deck)
    write(
        deck,
        entry("orphaned", "{python} traps.py", 'linger = "0s"\ngrace = "5s"'),
        entry("next", "echo through $RANK"),
        head=HEAD.replace("cpu_slots = 2", "cpu_slots = 1"),
    )
    engine = deck.start()
    ranks = waiting_ranks(deck)
    os.kill(launcher_of(deck, ranks), signal.SIGKILL)
    engine.ended("orphaned")
    assert not any(lives(pid) for pid in ranks)
    ran = engine.finish()
    assert ran.states == {"orphaned": "failed", "next": "succeeded"}
    assert "KILL" in ran.ended("orphaned")[0]["reason"]


def test_a_rank_that_was_killed_is_named_and_takes_the_others_along(deck: Deck) -> None:
    gates_of(deck)
    write(deck, entry("robbed", "{python} traps.py"))
    engine = deck.start()
    ranks = waiting_ranks(deck)
    os.kill(ranks[1], signal.SIGKILL)
    assert engine.ended("robbed")["reason"] == "rank 1 of 2 killed by KILL"
    assert not any(lives(pid) for pid in ranks)
    engine.finish()


def test_ranks_go_on_under_the_next_engine_and_their_logs_are_whole(deck: Deck) -> None:
    gates = gates_of(deck)
    write(deck, entry("kept", "{python} traps.py"))
    engine = deck.start()
    ranks = waiting_ranks(deck)
    engine.kill()
    assert all(lives(pid) for pid in ranks)
    engine = deck.start()
    assert engine.event("deck_opened")["counts"]["running"] == 1
    for gate in gates:
        gate.let()
    assert engine.finish().states == {"kept": "succeeded"}
    assert deck.lines("logs/kept/attempt-1.log") == ["up 0", "through 0"]
    assert deck.lines("logs/kept/attempt-1.rank1.log") == ["up 1", "through 1"]


def test_accelerate_starts_its_ranks_apart_from_each_other_too(deck: Deck) -> None:
    write(
        deck,
        entry("acc-1", "{python} meets.py", 'launch = "accelerate"'),
        entry("acc-2", "{python} meets.py fail", 'launch = "accelerate"'),
    )
    ran = deck.run()
    assert ran.states == {"acc-1": "succeeded", "acc-2": "failed"}
    assert deck.lines("logs/acc-1/attempt-1.log") == ["step 1 of rank 0", "sum 4"]
    assert deck.lines("logs/acc-1/attempt-1.rank1.log") == ["step 1 of rank 1", "sum 4"]
    assert ran.ended("acc-2")[0]["reason"] == "rank 1 of 2: exit code 1: RuntimeError: bad batch 7"


def test_a_port_that_another_process_has_is_tried_again_without_using_a_retry(deck: Deck) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        binds = f"import socket; s = socket.socket(); s.bind(('127.0.0.1', {port})); print('bound')"
        write(deck, entry("fixed", f'{{python}} -c "{binds}"', "nproc = 1"))
        engine = deck.start()
        end = engine.ended("fixed")
    assert end["reason"].startswith("port taken: rank 0")
    ran = engine.finish()
    assert ran.states == {"fixed": "succeeded"}
    assert deck.lines("logs/fixed/attempt-2.log") == ["bound"]


def test_a_warning_reaches_the_ranks_and_leaves_their_launcher_alone(deck: Deck) -> None:
    saves = "import signal; signal.sigwait({signal.SIGUSR1}); print('saved')"
    saves = f"import signal; signal.signal(signal.SIGUSR1, lambda *_: None); {saves}"
    # Of torchrun the ranks are up after 3 s, on a busy box after 10: the warning comes 20 s after the start.
    warned = 'timeout = "80s"\nwarn_signal = "USR1"\nwarn_before = "60s"'
    write(deck, entry("warned", f'{{python}} -c "{saves}"', warned))
    assert deck.run().states == {"warned": "succeeded"}
    assert deck.lines("logs/warned/attempt-1.log") == ["saved"]
    assert deck.lines("logs/warned/attempt-1.rank1.log") == ["saved"]


def test_a_typed_command_is_started_several_times_and_logs_and_clean_know_the_ranks(deck: Deck) -> None:
    deck.folder.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}:{deck.env['PATH']}"
    typed = ("--launch", "torchrun", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    ran = deck.command("run", "--gpus", "sim:2", "-n", "2", *typed, env={"PATH": path})
    assert (ran.code, ran.out) == (0, "0 of 2\n")
    assert deck.command("logs", "--queue", "sh", "--rank", "1").out == "1 of 2\n"
    missing = deck.command("logs", "--queue", "sh", "--rank", "2")
    assert (missing.code, "the last is rank 1" in missing.err) == (1, True)
    assert deck.command("stop", "--queue").code == 0
    assert deck.command("clean", "--queue", "sh", "--keep-last", "0", "-y").code == 0
    assert not list((deck.queue_folder / "logs/sh").glob("attempt-1.rank1.*"))
