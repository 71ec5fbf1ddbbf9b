"""Versions of deck.db: newer ones are refused untouched, older ones migrated after a copy."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes.journal import appended, numbered, numbers
from tests.inside.adapters import SCHEMA, Schema, SqliteJournal, look_at

SAMPLES = Path(__file__).parent / "samples"


def _add_a_table(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE marks (seq INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO marks SELECT max(seq) FROM facts")


def _fail(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE half (a)")
    raise sqlite3.OperationalError("the step failed")


NEXT = Schema(SCHEMA.version + 1, SCHEMA.create, {**SCHEMA.steps, SCHEMA.version: _add_a_table})
FAILING = Schema(SCHEMA.version + 2, SCHEMA.create, {**NEXT.steps, NEXT.version: _fail})


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A journal of today's version."""
    path = tmp_path / "deck.db"
    journal = SqliteJournal.open(str(path))
    appended(journal, numbered(0, 10)).result(20)
    journal.close()
    return path


def query(path: Path, sql: str) -> list[tuple[int, ...]]:
    raw = sqlite3.connect(path)
    try:
        return raw.execute(sql).fetchall()
    finally:
        raw.close()


def test_a_newer_db_is_refused_with_a_clear_message_and_left_untouched(db: Path):
    SqliteJournal.open(str(db), schema=NEXT).close()
    before = db.read_bytes()
    with pytest.raises(EngineUnavailableError, match="written by a newer gpudeck"):
        SqliteJournal.open(str(db))
    assert db.read_bytes() == before


def test_a_newer_db_refuses_with_exit_code_3(db: Path):
    SqliteJournal.open(str(db), schema=NEXT).close()
    with pytest.raises(EngineUnavailableError) as refused:
        SqliteJournal.open(str(db))
    assert refused.value.exit_code == 3


def test_an_older_db_keeps_its_facts_through_a_migration(db: Path):
    journal = SqliteJournal.open(str(db), schema=NEXT)
    held = numbers(journal.load())
    journal.close()
    assert (held, query(db, "SELECT seq FROM marks")) == (list(range(10)), [(10,)])


def test_a_journal_of_the_first_version_goes_on_with_what_its_killed_engine_left(tmp_path: Path):
    shutil.copytree(SAMPLES / "journal-1", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "deck.db"
    looked_at = look_at(str(path))
    journal = SqliteJournal.open(str(path))
    appended(journal, numbered(25)).result(20)
    held = numbers(journal.load())
    journal.close()
    assert (numbers(looked_at[0]), looked_at[1]) == (list(range(25)), "")
    assert (held, journal.damage) == (list(range(26)), "")
    assert query(Path(f"{path}.v1"), "SELECT count(*) FROM facts") == [(25,)]


def test_a_migration_tells_which_versions_the_db_has_had(db: Path):
    SqliteJournal.open(str(db), schema=NEXT).close()
    assert query(db, "SELECT version FROM versions") == [(2,), (3,)]


def test_before_a_migration_a_copy_is_made_that_today_can_read(db: Path):
    SqliteJournal.open(str(db), schema=NEXT).close()
    copy = SqliteJournal.open(str(db) + ".v2")
    held = numbers(copy.load())
    copy.close()
    assert held == list(range(10))


def test_the_copy_has_what_was_only_in_the_wal(db: Path):
    journal = SqliteJournal.open(str(db))
    appended(journal, numbered(10)).result(20)
    SqliteJournal.open(str(db), schema=NEXT).close()
    assert query(Path(str(db) + ".v2"), "SELECT count(*) FROM facts") == [(11,)]
    journal.close()


def test_a_migration_that_fails_changes_nothing(db: Path):
    with pytest.raises(EngineUnavailableError):
        SqliteJournal.open(str(db), schema=FAILING)
    journal = SqliteJournal.open(str(db))
    held = numbers(journal.load())
    journal.close()
    assert (held, query(db, "SELECT version FROM versions")) == (list(range(10)), [(2,)])


def test_a_new_db_and_its_wal_are_for_their_owner_only(tmp_path: Path):
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    journal.close()
    assert modes == dict.fromkeys(["deck.db", "deck.db-wal", "deck.db-shm", "reserve"], 0o600)


def test_a_folder_that_does_not_exist_is_a_clear_refusal(tmp_path: Path):
    with pytest.raises(EngineUnavailableError, match=r"deck\.db cannot be opened"):
        SqliteJournal.open(str(tmp_path / "gone" / "deck.db"))
