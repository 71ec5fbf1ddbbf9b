"""The state folder: one engine at a time, and what happens when somebody damages or deletes it."""

from __future__ import annotations

import shutil
import sqlite3

from gpudeck.engine.core.events import AttemptStarting
from tests.e2e.decks import Deck, until

GATED = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "echo first >>ran; read _ <gate"
    [[task]]
    name = "second"
    command = "echo second >>ran"
"""


def test_a_second_engine_is_refused_and_told_who_holds_the_deck(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    deck.tune("engine.adapters.state.lock", **{"DeckLock.acquire.wait_s": 0.1})
    second = deck.run()
    assert second.code == 3
    assert f"gpudeck {engine.pid}" in second.err
    assert second.out == ""
    gate.let()
    assert engine.finish().code == 0
    assert deck.lines("ran") == ["first", "second"]


def test_two_task_files_in_one_folder_are_two_decks(deck: Deck) -> None:
    deck.write(GATED)
    deck.write(GATED.replace("gate", "other-gate").replace("ran", "other-ran"), "other.toml")
    gate = deck.gate()
    deck.gate("other-gate").let()
    engine = deck.start()
    engine.started("first")
    assert deck.run(file="other.toml").code == 0
    gate.let()
    assert engine.finish().code == 0
    assert (deck.folder / "logs/other/first/attempt-1.log").exists()


def test_a_state_folder_removed_under_an_engine_ends_its_starts_and_nothing_runs_twice(
    deck: Deck,
) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("ran") and (deck.folder / "logs/first/attempt-1.json").exists())
    shutil.rmtree(deck.folder / ".gpudeck")
    second = deck.run()  # and nothing runs twice
    assert (second.code, "first attempt 1 still runs" in second.err, "kill -- -" in second.err) == (2, True, True)
    gate.let()
    ran = engine.finish()
    assert ran.code == 3
    assert "removed or replaced" in ran.notes
    assert ran.ended("first")[0]["outcome"] == "ok"
    assert deck.lines("ran") == ["first"]


def test_a_damaged_journal_is_set_aside_and_reported_and_the_deck_runs(deck: Deck) -> None:
    deck.write(GATED)
    deck.gate().let(2)
    deck.run()
    state = deck.folder / ".gpudeck" / "tasks"
    (state / "deck.db").write_bytes(b"\x00garbage\xff" * 4096)
    for name in ("deck.db-wal", "deck.db-shm"):
        (state / name).unlink(missing_ok=True)
    ran = deck.run()
    assert ran.code == 0
    assert "damaged" in ran.notes
    (aside,) = state.glob("damaged-*")
    assert b"garbage" in (aside / "deck.db").read_bytes()


def test_without_its_journal_a_deck_goes_on_numbering_after_the_files_on_disk(deck: Deck) -> None:
    deck.write(GATED)
    deck.gate().let(2)
    deck.run()
    before = deck.text("logs/second/attempt-1.json")
    shutil.rmtree(deck.folder / ".gpudeck")
    ran = deck.run()
    assert ran.code == 0
    assert ran.ended("second")[0]["attempt"] == 2
    assert deck.text("logs/second/attempt-1.json") == before


def test_every_start_is_in_the_journal_before_its_process(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("ran"))
    assert [fact.task for fact in deck.facts() if isinstance(fact, AttemptStarting)] == ["first"]
    gate.let()
    engine.finish()


def test_engines_started_at_once_run_each_task_once(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2]
        command = "echo {i} >>ran"
    """)
    codes = [engine.finish().code for engine in [deck.start() for _ in range(4)]]
    assert set(codes) <= {0, 3}
    assert deck.lines("ran") == ["0", "1", "2"]


def test_a_journal_locked_by_another_program_delays_starts_and_loses_nothing(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    deck.seams = {**deck.seams, "sqlite": 0.2}
    engine = deck.start()
    until(lambda: deck.lines("ran"))
    other = sqlite3.connect(deck.folder / ".gpudeck/tasks/deck.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    gate.let()
    engine.note("cannot be written")
    assert deck.lines("ran") == ["first"]
    other.execute("ROLLBACK")
    other.close()
    ran = engine.finish()
    assert ran.code == 0
    assert deck.lines("ran") == ["first", "second"]
    assert deck.run().states == {"first": "cached", "second": "cached"}
