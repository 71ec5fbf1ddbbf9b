"""The journal's thread: nothing that others do in it stops it, and its WAL does not grow without end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import Fact
from tests.fakes.journal import appended, numbered, numbers
from tests.inside.adapters import SqliteJournal

LONG_S = 20.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    made = SqliteJournal.open(str(tmp_path / "deck.db"))
    yield made
    made.close()


def test_a_callback_that_raises_stops_nothing(journal: SqliteJournal):
    def fail(_: Exception | None) -> None:
        raise RuntimeError("the event loop is closed")

    journal.submit(numbered(0), durable=True, done=fail)
    appended(journal, numbered(1)).result(LONG_S)
    assert numbers(journal.load()) == [0, 1]


def test_what_must_be_on_disk_waits_for_no_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpudeck.engine.adapters.journal.journal.LINGER_S", 10 * LONG_S)
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))
    journal.submit(numbered(0), durable=False)
    appended(journal, numbered(1)).result(LONG_S)
    journal.close()


def test_what_comes_after_a_silence_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpudeck.engine.adapters.journal.journal.LINGER_S", 0.0)
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))
    for number in range(9):
        appended(journal, numbered(number)).result(LONG_S)
    journal.close()


def test_facts_may_be_submitted_from_a_callback(journal: SqliteJournal):
    reached = threading.Event()

    def go_on(_: Exception | None) -> None:
        journal.submit(numbered(1), durable=True, done=lambda _: reached.set())

    journal.submit(numbered(0), durable=True, done=go_on)
    assert reached.wait(LONG_S)
    assert numbers(journal.load()) == [0, 1]


def test_the_wal_is_brought_into_the_db_now_and_then(journal: SqliteJournal, tmp_path: Path):
    for number in range(1300):
        appended(journal, numbered(number)).result(LONG_S)
    assert (tmp_path / "deck.db-wal").stat().st_size < 1200 * 4120
    assert numbers(journal.load()) == list(range(1300))


def test_a_fact_that_cannot_be_encoded_is_the_callers_error(journal: SqliteJournal):
    class Stranger:
        pass

    with pytest.raises(KeyError):
        journal.submit([_as_fact(Stranger())], durable=True)
    appended(journal, numbered(0)).result(LONG_S)
    assert numbers(journal.load()) == [0]


def _as_fact(value: object) -> Fact:
    return value  # type: ignore[return-value]
