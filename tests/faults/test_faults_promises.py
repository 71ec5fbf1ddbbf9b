"""Promises about starts after a fault that are no matter of a task's state."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.decks import Deck, lives, until
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside

GATED = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = {command}
"""
HELD = '["sh", "-c", "echo $$ >>pids; read _ <gate"]'
NAMELESS = '["sh", "-c", "exec env -i sh -c \\"echo \\\\$\\\\$ >>pids; read _ <gate\\""]'


def pid_of_the_only_copy(deck: Deck) -> int:
    (pid,) = until(lambda: deck.lines("pids"))
    return int(pid)


def test_a_command_that_erased_its_environment_and_lost_its_wrapper_is_not_taken_for_lost(deck: Deck) -> None:
    deck.write(GATED.format(command=NAMELESS))
    gate = deck.gate()
    engine = deck.start()
    pid = pid_of_the_only_copy(deck)
    wrapper = engine.event("task_started")["pid"]
    engine.kill()
    os.kill(wrapper, signal.SIGKILL)
    until(lambda: not lives(wrapper))
    engine = deck.start("--check-interval", "0.2")
    assert engine.event("status")["counts"]["running"] == 1
    assert lives(pid)
    gate.let()
    ran = engine.finish()
    assert len(deck.lines("pids")) == 1
    assert [end["exit_code"] for end in ran.ended("long")] == [None]


def test_a_run_that_goes_on_from_another_virtual_environment_says_so(deck: Deck) -> None:
    deck.write(GATED.format(command=HELD))
    gate = deck.gate()
    engine = deck.start(env={"VIRTUAL_ENV": "/one"})
    pid_of_the_only_copy(deck)
    engine.kill()
    gate.let()
    ran = deck.run(env={"VIRTUAL_ENV": "/another"})
    assert "VIRTUAL_ENV" in ran.notes


def test_a_deck_that_has_run_on_gpus_does_not_go_on_on_the_cpu_by_itself(
    deck: Deck, tmp_path_factory: pytest.TempPathFactory
) -> None:
    deck.write('[deck]\n[[task]]\nname = "t"\ncommand = "exit 1"\n')
    box = Box(tmp_path_factory.mktemp("nvml") / "box.txt", 1)
    code, environment = outside(box)
    names = ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE")
    assert not code, "the double of the driver needs no start script here"
    with_card = {name: environment[name] for name in names if name in environment}
    assert deck.run(env=with_card).code == 1
    box.release()
    ran = deck.run()
    assert ran.code == 3
    assert "has run on GPUs" in ran.err
