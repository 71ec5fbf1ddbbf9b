"""kill -9 of the engine: its tasks go on, the next engine takes them over, and nothing starts twice."""

from __future__ import annotations

import json
import os
import signal

from gpudeck.engine.core.events import AttemptRunning, LeaderEnded
from tests.e2e.decks import Deck, lives, until

GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "long-{i}"
    matrix.i = [0, 1]
    command = "echo $$ >>pids.{i}; read _ <gate.{i}; exit {i}0"
    success_codes = [0, 10]
    [[task]]
    name = "next"
    needs = ["long-*"]
    command = "echo next >>pids.next"
"""


def pid_of(deck: Deck, name: str) -> int:
    until(lambda: deck.lines(name))
    (line,) = deck.lines(name)
    return int(line)


def test_tasks_go_on_when_the_engine_is_killed(deck: Deck) -> None:
    deck.write(GATED)
    deck.gate("gate.0"), deck.gate("gate.1")
    engine = deck.start()
    tasks = [pid_of(deck, "pids.0"), pid_of(deck, "pids.1")]
    engine.kill()
    assert all(lives(pid) for pid in tasks)


def test_the_next_engine_adopts_what_runs(deck: Deck) -> None:
    deck.write(GATED)
    gates = [deck.gate("gate.0"), deck.gate("gate.1")]
    engine = deck.start()
    pid_of(deck, "pids.0"), pid_of(deck, "pids.1")
    until(lambda: sum(isinstance(fact, AttemptRunning) for fact in deck.facts()) == 2)
    engine.kill()
    engine = deck.start()
    opened = engine.event("deck_opened")
    assert opened["continued"] is True
    assert opened["counts"]["running"] == 2
    for gate in gates:
        gate.let()
    ran = engine.finish()
    assert ran.states == {"long-0": "succeeded", "long-1": "succeeded", "next": "succeeded"}
    assert ran.started == ["next"]
    assert [len(deck.lines(f"pids.{i}")) for i in (0, 1)] == [1, 1]


def test_the_next_engine_collects_what_ended_meanwhile_with_its_true_code(deck: Deck) -> None:
    deck.write(GATED.replace("[0, 10]", "[0]"))
    gates = [deck.gate("gate.0"), deck.gate("gate.1")]
    engine = deck.start()
    tasks = [pid_of(deck, "pids.0"), pid_of(deck, "pids.1")]
    engine.kill()
    for gate in gates:
        gate.let()
    until(lambda: not any(lives(pid) for pid in tasks) and not deck.living())
    ran = deck.run()
    assert ran.ended("long-0")[0]["exit_code"] == 0
    assert ran.ended("long-1")[0]["exit_code"] == 10
    assert ran.states == {"long-0": "succeeded", "long-1": "failed", "next": "blocked"}
    assert deck.record("long-1")["end"]["exit_code"] == 10


def test_what_a_leader_left_is_stopped_by_the_next_engine(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "leaves"
        linger = "1s"
        command = "sleep 100 & echo $! >>pids"
    """)
    engine = deck.start()
    left = pid_of(deck, "pids")
    until(lambda: any(isinstance(fact, LeaderEnded) for fact in deck.facts()))
    engine.kill()
    assert lives(left)
    ran = deck.run()
    assert (ran.states, lives(left)) == ({"leaves": "succeeded"}, False)


def test_a_timeout_counts_the_time_without_an_engine(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "slow"
        timeout = "600ms"
        command = "echo $$ >>pids; sleep 100"
    """)
    engine = deck.start()
    pid_of(deck, "pids")
    engine.kill()
    ran = deck.run()
    assert ran.rows["slow"]["reason"].startswith("timeout")
    assert ran.rows["slow"]["duration_s"] < 50


def test_a_task_that_runs_belongs_to_the_run_and_keeps_its_slot_whatever_only_says(deck: Deck) -> None:
    deck.write(GATED.replace('"sim:2"', '"sim:1"'))
    gates = [deck.gate("gate.0"), deck.gate("gate.1")]
    engine = deck.start()
    pid_of(deck, "pids.0")
    engine.kill()
    engine = deck.start("--only", "long-1")
    engine.event("deck_opened")
    gates[1].let()
    gates[0].let()
    ran = engine.finish()
    kinds = [(event["event"], event["task"]) for event in ran.events if event["event"].startswith("task_")]
    assert kinds.index(("task_ended", "long-0")) < kinds.index(("task_started", "long-1"))
    assert ran.states == {"long-0": "succeeded", "long-1": "succeeded"}


def move_to_another_namespace(deck: Deck) -> None:
    """As if the last engine had run in another container."""
    lock = deck.folder / ".gpudeck/tasks/lock"
    holder = json.loads(lock.read_text())
    holder["machine"]["pid_ns"] += 1
    lock.write_text(json.dumps(holder) + "\n")


ALONE = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = "echo $$ >>pids; read _ <gate"
"""


def test_what_ran_in_another_container_is_not_started_again_until_the_user_says_that_it_is_gone(deck: Deck) -> None:
    deck.write(ALONE)
    gate = deck.gate()
    engine = deck.start()
    pid_of(deck, "pids")
    engine.kill()
    for pid in deck.living():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not deck.living())
    move_to_another_namespace(deck)
    ran = deck.run()
    assert ran.code == 1
    assert ran.states == {"long": "unknown"}
    assert "--takeover" in ran.notes
    gate.let()
    move_to_another_namespace(deck)
    assert deck.run("--takeover").states == {"long": "succeeded"}
    assert len(deck.lines("pids")) == 2
