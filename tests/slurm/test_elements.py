"""An element of an array, cancelled by hand while it waits."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.decks import Deck, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm


def test_an_element_that_scancel_takes_off_the_queue_is_cancelled_and_not_submitted_again(
    deck: Deck, cluster: Cluster
) -> None:
    deck.write(
        """
        [deck]
        backend = "slurm"
        [slurm]
        array = true
        extra = ["--hold"]
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2]
        gpus = 0
        command = "echo {i} >>ran"
        """
    )
    engine = deck.start()
    jobs = {f"t{i}": engine.event("task_submitted", task=f"t{i}")["job"] for i in range(3)}
    until(lambda: "JobHeldUser" in deck.command("explain", "t1").out)
    subprocess.run(["scancel", jobs["t1"]], env=deck.env, check=True)
    end = engine.ended("t1")
    assert (end["outcome"], end["reason"]) == ("cancelled", "cancelled by scancel")
    subprocess.run(["scontrol", "release", jobs["t0"].partition("_")[0]], env=deck.env, check=True)
    engine.ended("t0")
    engine.ended("t2")
    engine.finish()
    assert (sorted(deck.lines("ran")), engine.count("task_submitted")) == (["0", "2"], 3)
