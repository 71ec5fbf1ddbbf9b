"""Full disks: what runs goes on, nothing new starts, and all resumes by itself when there is space again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import StartRevoked
from tests.e2e.decks import Deck, until
from tests.fakes.small_disk import SmallDisk, small_disk

PAIR = """
    [deck]
    gpus = "sim:1"
    log_dir = "{log_dir}"
    state_dir = "{state_dir}"
    [[task]]
    name = "first"
    command = "echo first >>ran; read _ <gate"
    [[task]]
    name = "second"
    command = "echo second >>ran"
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small") as disk:
        yield disk


def test_a_full_disk_below_the_state_folder_pauses_starts_until_there_is_space(deck: Deck, disk: SmallDisk) -> None:
    deck.write(PAIR.format(log_dir="logs", state_dir="small/state"))
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("ran"))
    disk.fill()
    gate.let()
    engine.note("nothing new starts")
    engine.ended("first", outcome="ok")
    assert deck.lines("ran") == ["first"]
    disk.empty()
    engine.note("can be written again")
    ran = engine.finish()
    assert ran.code == 0
    assert deck.lines("ran") == ["first", "second"]
    assert ran.rows["second"]["attempts"] == 1


def test_a_full_disk_below_the_logs_is_no_attempt(deck: Deck, disk: SmallDisk) -> None:
    deck.write(PAIR.format(log_dir="small/logs", state_dir=".gpudeck"))
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("ran"))
    disk.fill()
    gate.let()
    engine.note("second could not be started")
    disk.empty()
    ran = engine.finish()
    assert ran.code == 0
    assert ran.rows["second"]["attempts"] == 1
    assert deck.lines("ran") == ["first", "second"]
    assert sum(isinstance(fact, StartRevoked) for fact in deck.facts()) <= 3


def test_a_state_folder_without_space_at_the_start_is_said(deck: Deck, disk: SmallDisk) -> None:
    deck.write(PAIR.format(log_dir="logs", state_dir="small/state"))
    disk.fill()
    ran = deck.run()
    assert ran.code == 3
    assert "space" in ran.err
    assert deck.lines("ran") == []


def test_an_end_that_no_disk_took_is_not_lost_with_the_engine(deck: Deck, disk: SmallDisk) -> None:
    deck.write("""
        [deck]
        gpus = "sim:2"
        state_dir = "small/state"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1]
        command = "echo {i} >>ran; read _ <gate.{i}"
    """)
    gates = [deck.gate("gate.0"), deck.gate("gate.1")]
    engine = deck.start()
    until(lambda: len(deck.lines("ran")) == 2)
    for number, gate in enumerate(gates):
        disk.fill()
        gate.let()
        engine.ended(f"t{number}", outcome="ok")
    engine.kill()
    disk.empty()
    ran = deck.run()
    assert ran.code == 0
    assert ran.started == []
    assert sorted(deck.lines("ran")) == ["0", "1"]
