"""Faults of the disks and of the journal on them; each sees the deck through to its end."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from tests.fakes.small_disk import SmallDisk
from tests.faults.cases import Case

# -- disks ------------------------------------------------------------------------------------------------------------


def journal_disk_full(case: Case) -> None:
    """Nothing new starts, what runs goes on and ends, and all resumes by itself."""
    disk = SmallDisk(case.folder / "small")
    disk.fill()
    case.release()
    case.until(lambda: "nothing new starts" in case.engine.notes())
    disk.fill()  # what the reserve gave free as well
    begun = len(case.ledger.lines("begin"))
    if case.state in ("running", "stopping"):
        case.until(case.engine.ended, "subject")
    assert len(case.ledger.lines("begin")) == begun
    disk.empty()
    case.complete()


def log_disk_full(case: Case) -> None:
    """A start without a log is no attempt; what runs goes on and ends."""
    disk = SmallDisk(case.folder / "small")
    disk.fill()
    case.release()
    case.until(lambda: "could not be started" in case.engine.notes())
    disk.empty()
    case.complete()


# -- the journal ------------------------------------------------------------------------------------------------------


def journal_truncated(case: Case) -> None:
    """It is set aside and said; logs and records tell what it has forgotten, and what runs is taken over."""
    path = _without_engine(case)
    os.truncate(path, 0)
    case.start()
    case.until(lambda: [event for event in case.engine.events() if event["event"] == "deck_opened"])
    case.release()
    case.complete()
    assert list(path.parent.glob("damaged-*/deck.db-wal"))


def journal_garbled(case: Case) -> None:
    """In the middle of what was written last: what is before that is known. To SQLite it looks as if a power cut had
    torn it there, and what came after it of an attempt that is over is forgotten."""
    path = _without_engine(case)
    begun = frozenset(line.who for line in case.ledger.lines("begin"))
    with path.with_name("deck.db-wal").open("r+b") as file:
        file.seek(os.fstat(file.fileno()).st_size // 2)
        file.write(b"\xa5" * 512)
    case.start()
    case.release()
    case.complete()
    case.forgotten = begun


def _without_engine(case: Case) -> Path:
    """The journal of a killed engine that had come to write what its attempts are."""
    begun = [(line.task, line.attempt) for line in case.ledger.lines("begin")]
    case.until(lambda: all(case.books.described(*who) for who in begun))
    case.engine.kill()
    return case.folder / ".gpudeck/tasks/deck.db"


def journal_of_a_newer_version(case: Case) -> None:
    """It is left alone, and so is what runs."""
    case.engine.kill()
    path = case.folder / ".gpudeck/tasks/deck.db"
    version = _set_version(path, 999)
    before = path.read_bytes()
    code, said = case.refused()
    assert code == 3
    assert "newer gpudeck" in said
    assert path.read_bytes() == before
    _set_version(path, version)
    case.release()
    case.complete()


def _set_version(path: Path, version: int) -> int:
    with contextlib.closing(sqlite3.connect(path)) as db:
        was = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version={version}")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return was
