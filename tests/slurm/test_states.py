"""What a deck keeps for tasks on other machines, and tells of them: copies of the code, results, hosts."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.decks import Deck, until
from tests.slurm.rig import Cluster
from tests.snapshot.repositories import repo_in

pytestmark = pytest.mark.slurm

HEAD = """
    [deck]
    backend = "slurm"
"""


def test_copies_of_the_code_lie_where_the_nodes_see_them(deck: Deck, cluster: Cluster) -> None:
    repo = repo_in(deck.folder, {"train.sh": "echo first >>out/ran\n", ".gitignore": "logs/\nout/\n"})
    deck.write(
        HEAD
        + """
    snapshot = true
    [[task]]
    name = "a"
    command = "sh train.sh; pwd >>out/ran"
    outputs = ["out/ran"]
    """
    )
    assert deck.run().code == 0
    copy = deck.record("a")["snapshot"]
    assert copy.startswith(f"{deck.folder}/logs/.snapshots/")
    assert deck.lines("out/ran") == ["first", copy]
    assert repo.worktrees() == [copy]
    assert deck.command("clean", "--yes").code == 0
    assert repo.worktrees() == []


def test_a_new_run_takes_up_what_changed_and_drops_the_copy_before(deck: Deck, cluster: Cluster) -> None:
    repo = repo_in(deck.folder, {"train.sh": "exit 3\n", ".gitignore": "logs/\nout/\n"})
    deck.write(HEAD + '    snapshot = true\n    [[task]]\n    name = "a"\n    command = "sh train.sh"\n')
    assert deck.run().code == 1
    repo.write({"train.sh": "exit 0\n"})
    assert deck.run().code == 0
    assert repo.worktrees() == [deck.record("a", 2)["snapshot"]]


def test_a_takeover_knows_results_whose_state_is_gone(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        HEAD
        + """
    [[task]]
    name = "good"
    command = "echo good >>ran"
    [[task]]
    name = "bad"
    command = "echo bad >>ran; exit 3"
    """
    )
    assert deck.run().code == 1
    shutil.rmtree(deck.folder / ".gpudeck")
    ran = deck.run("--takeover")
    assert sorted(deck.lines("ran")) == ["bad", "bad", "good"], ran.out + ran.err


def test_a_takeover_says_that_jobs_go_on_and_keeps_them(deck: Deck, cluster: Cluster) -> None:
    deck.write(HEAD + '[[task]]\nname = "a"\ncommand = "touch runs; read _ < gate; exit 5"\n')
    gate = deck.gate()
    engine = deck.start()
    until((deck.folder / "runs").exists)
    engine.kill()
    asked = deck.command("takeover")
    assert "1 job of it had not ended, which goes on and is taken over. An engine that still runs there" in asked.err
    assert deck.command("takeover", "-y").out.startswith("taken over: 1 running")
    gate.let()
    assert deck.command("wait").code == 1
    assert until(lambda: deck.record("a").get("end"))["exit_code"] == 5
    assert not (deck.folder / "logs" / "a" / "attempt-2.log").exists()


def test_a_nodelist_that_is_passed_over_is_named_once_at_the_start(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        HEAD
        + """
    [slurm]
    nodelist = "node1,node2"
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1, 2]
    gpus = 0
    command = "true"
    """
    )
    ran = deck.run()
    words = "t0 and 2 more: slurm.nodelist names several nodes for a task of one: passed over"
    assert (ran.code, (ran.out + ran.err).count(words)) == (0, 1), ran.out + ran.err


def test_attempt_json_names_the_node_as_its_host(deck: Deck, cluster: Cluster) -> None:
    deck.write(HEAD + '    [[task]]\n    name = "a"\n    command = "echo $SLURMD_NODENAME"\n')
    assert deck.run().code == 0
    assert deck.record("a")["host"] == deck.text("logs/a/attempt-1.log").strip()
