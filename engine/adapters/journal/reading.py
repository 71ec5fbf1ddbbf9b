"""Reading a journal: all of it, verified; nothing is changed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from ...core.events import Fact
from ...tuning import without_collector
from .codec import FactCodec
from .files import Glance, committed_frames, glance, has_wal, indexed_frames, unread_commits
from .schema import connect

CODEC = FactCodec()
_BATCH = 8192


@dataclass(slots=True)
class Contents:
    """What a db holds: the sound facts from the beginning, and why there are no more."""

    facts: list[Fact] = field(default_factory=list[Fact])
    problem: str = ""


def read_facts(path: str) -> tuple[list[Fact], str]:
    """All sound facts of a journal and what is damaged, for looking without the deck's lock: nothing is changed.

    A missing file has none. Not for the process that has the journal open. Raises UnknownFactError and sqlite3.Error.
    """
    contents = read(path, CODEC, glance(path))
    if contents.problem and has_wal(path):
        # An engine may have begun to write between the two looks.
        contents = read(path, CODEC, glance(path))
    return contents.facts, contents.problem


def read(path: str, codec: FactCodec, seen: Glance, *, alone: bool = False, mode: str = "mode=ro") -> Contents:
    """Everything in the db. Nothing is changed, not even by a checkpoint, and no file is made.

    *alone*: nobody writes now, so that what SQLite leaves unread in the -wal is damage. *mode*: how a db with a -wal
    is opened.

    Raises UnknownFactError, and sqlite3.Error for what is no damage (busy, no permission).
    """
    contents = Contents(problem=seen.problem)
    if seen.problem or not seen.exists:
        return contents
    had_wal, committed = has_wal(path), committed_frames(path)
    connection = connect(path, mode if had_wal else "mode=ro&immutable=1")
    connection.text_factory = bytes
    page_bytes = 0
    try:
        contents.problem = _decode_all(connection, codec, contents.facts)
        opened = connection.execute("SELECT yes FROM opened").fetchone()
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        if not contents.problem and not had_wal and opened != (0,):
            contents.problem = "its -wal is missing, the last facts with it"
    except UnicodeDecodeError as error:
        # A message of SQLite that quotes damaged text.
        contents.problem = contents.problem or error.object.decode(errors="replace")
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        contents.problem = contents.problem or str(error)
    finally:
        connection.close()
    if alone and had_wal and not contents.problem:
        if (lost := unread_commits(path, page_bytes)) > 1:
            contents.problem = f"its -wal is damaged, {lost} commits in it cannot be read"
        elif indexed_frames(path) < committed:
            contents.problem = "its -wal is damaged, the last commits in it are gone"
    return contents


def _decode_all(connection: sqlite3.Connection, codec: FactCodec, facts: list[Fact]) -> str:
    rows = connection.execute("SELECT seq, kind, version, body, crc FROM facts ORDER BY seq")
    with without_collector():
        while batch := rows.fetchmany(_BATCH):
            if problem := codec.decode(batch, facts):
                return problem
    return ""


def is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
