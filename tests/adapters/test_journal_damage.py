"""A damaged journal is set aside as a whole, and what is sound in it goes on in a new one."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes.journal import appended, numbered, numbers
from tests.inside.adapters import SqliteJournal, look_at


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A journal of 120 facts, cleanly closed."""
    path = tmp_path / "deck.db"
    fill(path, 120)
    return path


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A journal whose engine was killed after forty commits."""
    left_live(tmp_path / "deck.db", 1, 40)
    return tmp_path / "deck.db"


def fill(path: Path, count: int) -> None:
    journal = SqliteJournal.open(str(path))
    appended(journal, numbered(0, count)).result(20)
    journal.close()


def left_live(path: Path, count: int, commits: int = 1) -> None:
    """The files of a journal whose engine was killed: all facts are in the -wal."""
    live = path.with_name("live.db")
    journal = SqliteJournal.open(str(live))
    for first in range(0, count * commits, count):
        appended(journal, numbered(first, count)).result(20)
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{live}{suffix}", f"{path}{suffix}")
    journal.close()


def reopened(path: Path) -> tuple[list[int], str]:
    journal = SqliteJournal.open(str(path))
    held = numbers(journal.load())
    journal.close()
    return held, journal.damage


def set_aside(path: Path) -> list[str]:
    """The names in the one folder of damaged files."""
    (folder,) = path.parent.glob("damaged-*")
    return sorted(file.name for file in folder.iterdir())


def patch(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_garbage_in_the_header_begins_a_new_journal(db: Path):
    patch(db, 0, b"garbage!")
    held, damage = reopened(db)
    assert held == []
    assert "file is not a database" in damage
    assert set_aside(db) == ["deck.db"]


def test_another_programs_database_is_set_aside(tmp_path: Path):
    path = tmp_path / "deck.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()
    assert "no journal of gpudeck" in reopened(path)[1]


def test_db_wal_and_shm_move_together(tmp_path: Path):
    path = tmp_path / "deck.db"
    left_live(path, 10)
    patch(path, 0, b"garbage!")
    reopened(path)
    assert set_aside(path) == ["deck.db", "deck.db-shm", "deck.db-wal"]


def test_a_db_truncated_to_nothing_does_not_void_its_wal(tmp_path: Path):
    path = tmp_path / "deck.db"
    left_live(path, 10)
    path.write_bytes(b"")
    assert "it is missing or empty" in reopened(path)[1]
    (wal,) = path.parent.glob("damaged-*/deck.db-wal")
    assert wal.stat().st_size > 0


def test_a_wal_without_its_db_is_set_aside(tmp_path: Path):
    path = tmp_path / "deck.db"
    left_live(path, 10)
    path.unlink()
    assert "it is missing or empty" in reopened(path)[1]
    assert set_aside(path) == ["deck.db-shm", "deck.db-wal"]


def test_a_db_cut_in_half_is_damage(tmp_path: Path):
    path = tmp_path / "deck.db"
    fill(path, 3000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    held, damage = reopened(path)
    assert held == list(range(len(held)))
    assert "damaged" in damage


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_a_flipped_byte_anywhere_in_the_wal_leaves_facts_from_the_beginning(live: Path, place: float, mask: int):
    content = bytearray(live.with_name("deck.db-wal").read_bytes())
    content[int(place * len(content))] ^= mask
    folder = live.parent / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(live, folder)
    (folder / "deck.db-wal").write_bytes(content)
    held, _ = reopened(folder / "deck.db")
    assert held == list(range(len(held)))


def test_a_flipped_byte_in_a_row_keeps_what_is_before_it_and_says_how_much(db: Path):
    with sqlite3.connect(db) as raw:
        raw.execute("UPDATE facts SET body = zeroblob(length(body)) WHERE seq = 51")
    raw.close()
    held, damage = reopened(db)
    assert held == list(range(50))
    assert "fact 51 is damaged" in damage
    assert "kept the first 50 facts" in damage


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE facts SET kind = 'TaskHeld' WHERE seq = 9", "fact 9 is damaged"),
        ("UPDATE facts SET version = 2 WHERE seq = 9", "fact 9 is damaged"),
        ("UPDATE facts SET body = 7 WHERE seq = 9", "fact 9 is damaged"),
        ("UPDATE facts SET seq = 900 WHERE seq = 9", "fact 9 is missing"),
        ("DELETE FROM facts WHERE seq = 9", "fact 9 is missing"),
    ],
)
def test_a_row_that_changed_in_any_column_is_found(db: Path, change: str, why: str):
    with sqlite3.connect(db) as raw:
        raw.execute(change)
    raw.close()
    held, damage = reopened(db)
    assert held == list(range(8))
    assert why in damage


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_a_flipped_byte_anywhere_never_gives_wrong_facts(db: Path, place: float, mask: int):
    content = bytearray(db.read_bytes())
    content[int(place * len(content))] ^= mask
    folder = db.parent / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "deck.db"
    path.write_bytes(content)
    try:
        held, damage = reopened(path)
    except EngineUnavailableError as error:
        if "newer" not in str(error) or path.read_bytes() != content:
            raise
        return
    assert held == list(range(len(held)))
    assert len(held) == 120 or damage


def test_the_new_journal_goes_on_after_what_was_kept(db: Path):
    patch(db, 0, b"garbage!")
    journal = SqliteJournal.open(str(db))
    appended(journal, numbered(7)).result(20)
    journal.close()
    assert reopened(db) == ([7], "")


def test_damage_twice_in_a_second_overwrites_nothing(db: Path):
    for _ in range(2):
        patch(db, 0, b"garbage!")
        reopened(db)
    assert len(list(db.parent.glob("damaged-*/deck.db"))) == 2


def _moved_only(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def _nothing_moved(_: Path) -> None:
    pass


@pytest.mark.parametrize(("crash", "kept"), [(_moved_only, 3), (_nothing_moved, 120)])
def test_a_replacement_cut_short_is_finished_or_dropped(db: Path, crash: Callable[[Path], None], kept: int):
    replacement = db.parent / "other" / "deck.db"
    replacement.parent.mkdir()
    fill(replacement, 3)
    replacement.rename(db.with_name("deck.db.new"))
    crash(db)
    assert reopened(db) == (list(range(kept)), "")
    assert not db.with_name("deck.db.new").exists()


def test_looking_at_a_damaged_journal_changes_nothing(db: Path):
    patch(db, 0, b"garbage!")
    before = sorted(db.parent.iterdir()), db.read_bytes()
    assert look_at(str(db)) == ([], "file is not a database")
    assert (sorted(db.parent.iterdir()), db.read_bytes()) == before


def test_looking_at_a_sound_journal_makes_no_file(db: Path):
    before = sorted(db.parent.iterdir())
    facts, problem = look_at(str(db))
    assert (len(facts), problem, sorted(db.parent.iterdir())) == (120, "", before)


def test_looking_at_a_journal_in_use_sees_what_is_committed(tmp_path: Path):
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))
    appended(journal, numbered(0, 3)).result(20)
    look = "import sys; from gpudeck.engine.adapters.journal.db import look_at; print(len(look_at(sys.argv[1])[0]))"
    done = subprocess.run([sys.executable, "-c", look, str(tmp_path / "deck.db")], capture_output=True, check=True)
    journal.close()
    assert done.stdout == b"3\n"


def test_looking_at_a_missing_journal_finds_nothing_and_makes_nothing(tmp_path: Path):
    assert look_at(str(tmp_path / "deck.db")) == ([], "")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_in_its_place_is_a_journal_that_was_never_begun(tmp_path: Path):
    path = tmp_path / "deck.db"
    path.touch()
    assert (look_at(str(path)), reopened(path)) == (([], ""), ([], ""))


def test_a_journal_that_is_being_made_or_closed_is_never_damaged(tmp_path: Path):
    make = (
        "import sys; from gpudeck.engine.adapters.journal.journal import SqliteJournal\n"
        "for number in range(60): SqliteJournal.open(f'{sys.argv[1]}/{number}').close()"
    )
    with subprocess.Popen([sys.executable, "-c", make, str(tmp_path)]) as maker:
        for number in range(60):
            path = tmp_path / str(number)
            while not (path.exists() and (tmp_path / str(number + 1)).exists()) and maker.poll() is None:
                assert look_at(str(path)) == ([], "")
    assert maker.returncode == 0
