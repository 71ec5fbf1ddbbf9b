"""A box that is short of processes: what it refuses a task is never told as the task's own end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import GPUDECK, Deck, deck_in
from tests.e2e.live_rig import as_user, give

ONLY_HERE = 61803
"""A user of whom no other test has processes: the kernel counts all that a user has."""
ENOUGH_FOR_A_FEW = 14
"""Processes and threads: the engine, its threads and helper, and some shells without their commands."""


@pytest.fixture
def deck() -> Iterator[Deck]:
    """A deck of another user: the kernel counts no processes of root's."""
    with tempfile.TemporaryDirectory() as name:
        give(Path(name), ONLY_HERE)
        with deck_in(Path(name, "deck")) as deck:
            deck.env["HOME"] = str(deck.folder)
            yield deck


def limited(processes: int) -> tuple[str, ...]:
    """A command of theirs that gets no more than so many processes and threads."""
    return as_user(("prlimit", f"--nproc={processes}", GPUDECK), ONLY_HERE)


def test_a_box_without_another_thread_is_one_line(deck: Deck) -> None:
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    give(deck.folder)
    deck.prefix = limited(1)
    ran = deck.run()
    assert (ran.code, ran.err.count("\n")) == (3, 1), ran.err
    assert ran.err.startswith("gpudeck: no thread can be started: the limit of processes (ulimit -u, ")


def test_a_task_whose_command_gets_no_process_waits_and_costs_no_attempt(deck: Deck) -> None:
    deck.write(
        """
        [deck]
        gpus = "sim:8"

        [[task]]
        name = "a-{i}"
        command = ["sleep", "0.{i}"]
        matrix.i = [31, 32, 33, 34, 35, 36, 37, 38]
        """
    )
    give(deck.folder, ONLY_HERE)
    deck.prefix = limited(ENOUGH_FOR_A_FEW)
    ran = deck.run()
    assert (ran.code, set(ran.states.values())) == (0, {"succeeded"}), ran.out + ran.err
    assert {row["attempts"] for row in ran.rows.values()} == {1}
    assert "could not be started: no more processes are allowed (ulimit -u, pids.max of its cgroup)" in ran.notes
