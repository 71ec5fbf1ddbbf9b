"""An attempt of which no process is found, and what its GPU says of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.decks import Deck, Event, lives, put_on, until
from tests.fakes.nvml_double.box import Box

HIDDEN = """
    [[task]]
    name = "hidden"
    command = "setsid env -i sh -c 'echo $$ >>pid; exec sleep 300' & sleep 300"
    retries = 1
    retry_on = ["lost"]
    backoff = "0s"
"""
"""Leaves a process that has neither its session nor its environment."""
OTHER = """
    [[task]]
    name = "other"
    command = "read _ <gate"
    gpus = 0
"""


@pytest.fixture
def box(deck: Deck, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    deck.tune("engine.adapters.processes.adopt", _DRAINING_S=0.3, _AGAIN_S=0.05)
    box = Box(tmp_path_factory.mktemp("nvml") / "box.txt", 1)
    put_on(deck, box)
    yield box
    box.release()
    for pid in map(int, deck.lines("pid")):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def killed_but_for_what_hides(deck: Deck) -> int:
    """Start the deck and kill its engine and what it can find of its task; the pid of the rest."""
    deck.write(HIDDEN)
    engine = deck.start()
    wrapper = engine.event("task_started")["pid"]
    (pid,) = until(lambda: deck.lines("pid"))
    engine.kill()
    os.killpg(wrapper, signal.SIGKILL)
    until(lambda: not lives(wrapper))
    return int(pid)


def end_of(deck: Deck) -> Event:
    """How the attempt ended, by what the next engine says."""
    return deck.start().ended("hidden", attempt=1)


def test_an_attempt_is_not_lost_while_a_process_that_nothing_explains_is_on_its_gpu(deck: Deck, box: Box) -> None:
    pid = killed_but_for_what_hides(deck)
    box.processes(0, f"{pid} 700 C")
    box.set(**{"gpu.0.used": 704})
    ran = deck.run()
    assert ran.code == 1
    assert ran.states == {"hidden": "unknown"}
    assert f"pid {pid} on its GPU may belong to it" in ran.notes
    assert len(deck.lines("pid")) == 1


def test_it_is_lost_once_that_process_is_gone(deck: Deck, box: Box) -> None:
    pid = killed_but_for_what_hides(deck)
    box.processes(0, f"{pid} 700 C")
    assert deck.run().states == {"hidden": "unknown"}
    os.kill(pid, signal.SIGKILL)
    box.processes(0)
    assert end_of(deck)["reason"].startswith("lost")


def test_a_process_that_was_there_before_the_attempt_does_not_speak_against_its_loss(deck: Deck, box: Box) -> None:
    with subprocess.Popen(["sleep", "300"]) as older:
        killed_but_for_what_hides(deck)
        box.processes(0, f"{older.pid} 700 C")
        assert end_of(deck)["reason"].startswith("lost")
        older.kill()


def test_explain_names_what_speaks_against_a_loss(deck: Deck, box: Box) -> None:
    pid = killed_but_for_what_hides(deck)
    box.processes(0, f"{pid} 700 C")
    deck.write(HIDDEN + OTHER)
    gate = deck.gate()
    engine = deck.start()
    engine.started("other")
    assert f"pid {pid} on its GPU may belong to it" in deck.command("explain", "hidden").out
    gate.let()
    engine.finish()
