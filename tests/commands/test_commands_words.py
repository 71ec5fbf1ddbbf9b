"""What commands call things."""

from __future__ import annotations

import json

import pytest

from gpudeck.engine.attach import attach
from gpudeck.engine.errors import UsageError
from gpudeck.engine.taskfile.options import RunOptions
from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import until

LATER = """
    [deck]
    gpus = "sim:2"
    cpu_slots = 8
    [[task]]
    name = "a"
    command = "exit 3"
    retries = 1
    backoff = "500s"
    [[task]]
    name = "b"
    command = "true"
    gpus = 0
    needs = ["a"]
"""
MIXED = """
    [deck]
    gpus = "sim:3"
    [[task]]
    name = "cpu"
    command = "read _ <gate"
    gpus = 0
    [[task]]
    name = "gang"
    command = "read _ <gate"
    gpus = 2
"""
ONE = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "{name}"
    matrix.name = ["a", "b"]
    command = "read _ <gate; exit 3"
"""


def test_a_task_in_backoff_waits_for_its_next_attempt(deck: Commanded) -> None:
    deck.write(LATER)
    deck.go()
    deck.until_state("a", "backoff")
    assert deck.command("explain", "a").out.startswith("a waits for its next attempt:\n")
    assert "a (waits for its next attempt: it is neither changed" in deck.command("accept", "a").out

    def why() -> str:  # looked at once a second
        return json.loads(deck.command("status", "--json").out)["waiting_why"][0]

    until(lambda: why().startswith("1 waits for its next attempt: a in "))
    deck.command("stop", "--tasks")


def test_slots_are_those_for_gpu_tasks(deck: Commanded) -> None:
    deck.write(LATER)
    deck.go()
    assert json.loads(deck.command("status", "--json").out)["slots"] == 2
    deck.command("stop", "--tasks")


def test_a_cpu_task_takes_no_slot_of_gpu_tasks_and_a_gang_several(deck: Commanded) -> None:
    deck.write(MIXED)
    deck.gate()
    deck.go()
    deck.until_state("cpu", "running")
    deck.until_state("gang", "running")
    head = json.loads(deck.command("status", "--json").out)
    assert (head["used_slots"], head["slots"]) == (2, 3)
    deck.command("stop", "--tasks", "--now")


def test_a_task_that_waits_for_another_attempt_has_neither_gpu_nor_time(deck: Commanded) -> None:
    deck.write(ONE)
    gate = deck.gate()
    deck.go()
    deck.until_state("a", "running")
    gate.let()
    deck.until_state("b", "running")
    deck.until_state("a", "failed")
    assert deck.command("retry", "a").code == 0
    cells = next(line for line in deck.command("ls", "a").out.splitlines() if line.startswith("a ")).split()
    assert cells[:5] == ["a", "queued", "-", "1", "-"]
    deck.command("stop", "--tasks", "--now")


def test_a_kill_is_told_as_one(deck: Commanded) -> None:
    deck.write(ONE)
    deck.gate()
    deck.go()
    deck.until_state("a", "running")
    assert deck.command("kill", "a").code == 0
    deck.until_state("a", "cancelled")
    assert deck.rows("a")["a"]["reason"] == "cancelled by user (kill)"
    deck.command("stop", "--tasks", "--now")


def test_a_first_run_that_is_followed_does_not_go_on(deck: Commanded) -> None:
    deck.write(ONE)
    gate = deck.gate()
    deck.prefix = ("env", "TERM=dumb", *deck.prefix)  # no screen
    with typed(deck, "tasks.toml", "--plain") as first:
        first.until("open")
        assert "run 1  2 tasks" in first.shown
    with typed(deck, "attach") as later:
        later.until("run 1 goes on")
    gate.let(2)
    deck.command("stop", "--tasks", "--now")


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_a_retry_with_what_no_environment_can_hold_is_refused(deck: Commanded, env: dict[str, str]) -> None:
    deck.write(ONE)
    gate = deck.gate()
    deck.go()
    gate.let()
    deck.until_state("a", "failed")
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection, pytest.raises(UsageError, match=r"^env: "):
        connection.request("retry", tasks=["a"], env=env)
    deck.command("stop", "--tasks", "--now")
