"""Opening a journal: what `reading` found sound is mended, migrated or refused."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from ...atomic import sync_dir
from ...core.events import Fact
from ...errors import EngineUnavailableError
from .codec import Encoded, FactCodec, UnknownFactError, place
from .files import finish_replacement, fresh, glance, replace, staged
from .reading import Contents, is_damage, read
from .schema import Schema, connect, create, migrate, prepare, refuse_newer

MAX_ROWS = 32
"""Rows of one INSERT; each number of rows is a statement of its own in the connection's cache."""

_INSERTS = tuple(
    "INSERT INTO facts (seq, kind, version, body, crc) VALUES " + ",".join(["(?,?,?,?,?)"] * count)
    for count in range(MAX_ROWS + 1)
)


def insert(connection: sqlite3.Connection, encoded: Sequence[Encoded], last: int) -> None:
    """Write *encoded* behind row *last*, all of it or nothing. Raises sqlite3.Error."""
    count = len(encoded)
    if count <= MAX_ROWS:
        if count:
            connection.execute(_INSERTS[count], place(encoded, last))
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        for start in range(0, count, MAX_ROWS):
            part = encoded[start : start + MAX_ROWS]
            connection.execute(_INSERTS[len(part)], place(part, last + start))
        connection.execute("COMMIT")
    except sqlite3.Error:
        connection.rollback()
        raise


@dataclass(frozen=True, slots=True)
class Opened:
    connection: sqlite3.Connection
    facts: list[Fact]
    damage: str


def open_db(path: str, codec: FactCodec, schema: Schema) -> Opened:
    """A connection to a sound db of today's schema, and all its facts. The caller holds the deck's lock.

    Raises EngineUnavailableError: newer, not writable, disk full, used by another program.
    """
    try:
        finish_replacement(path)
        seen = glance(path)
        refuse_newer(path, 0 if seen.problem else seen.version, schema)
        contents = read(path, codec, seen, alone=True)
        connection = None if contents.problem else _try_connect(path, schema, contents)
        if connection:
            return Opened(connection, contents.facts, "")
        damage = _mend(path, contents, codec, schema)
        return Opened(_connect(path, schema, len(contents.facts)), contents.facts, damage)
    except UnknownFactError as error:
        raise EngineUnavailableError(f"{path}: {error}: open it with the gpudeck that wrote it") from error
    except (sqlite3.Error, OSError) as error:
        raise EngineUnavailableError(f"{path} cannot be opened: {explain(error)}") from error


def _try_connect(path: str, schema: Schema, contents: Contents) -> sqlite3.Connection | None:
    """None, and *contents* has a problem, where damage shows only now (outside of the facts)."""
    try:
        return _connect(path, schema, len(contents.facts))
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        contents.problem = str(error)
        return None


def _mend(path: str, contents: Contents, codec: FactCodec, schema: Schema) -> str:
    """Begin a new db with what is sound; the damaged files are kept aside. Returns the sentence for the user."""
    new = connect(staged(path))
    try:
        new.execute("PRAGMA synchronous=FULL")
        create(new, schema)
        insert(new, codec.encode(contents.facts), 0)
    finally:
        new.close()
    folder = replace(path)
    count = len(contents.facts)
    kept = f"kept the first {count} fact{'s' * (count != 1)}" if count else "nothing in it could be kept"
    return f"{os.path.basename(path)} was damaged ({contents.problem}): {kept}; it is set aside in {folder}"


def _begin(path: str, schema: Schema) -> None:
    """Make a new db beside its place and move it there: who looks, or comes after a kill, finds all of it or none."""
    new = fresh(path)
    connection = connect(new)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        create(connection, schema)
    finally:
        connection.close()
    os.rename(new, path)
    sync_dir(os.path.dirname(path))


def _connect(path: str, schema: Schema, last: int) -> sqlite3.Connection:
    if not glance(path).exists:
        _begin(path, schema)
    connection = connect(path)
    try:
        prepare(connection, path)
        migrate(connection, path, schema)
        _try_insert(connection, last)
        connection.execute("UPDATE opened SET yes = 1")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except (sqlite3.Error, OSError, EngineUnavailableError):
        close_db(connection, path)
        raise
    return connection


def close_db(connection: sqlite3.Connection, path: str) -> None:
    """Say that the db needs no -wal from here on, and close; SQLite then brings the -wal in and removes it.

    It is brought in before as well, which makes room on a full disk for saying so. Where it cannot be said all the
    same, an empty -wal takes the old one's place, as a crash would leave it: a missing one is damage.
    """
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    unsaid = True
    with contextlib.suppress(sqlite3.Error):
        connection.execute("UPDATE opened SET yes = 0")
        unsaid = False
    with contextlib.suppress(sqlite3.Error):
        connection.close()
    if unsaid:
        with contextlib.suppress(OSError):
            os.close(os.open(path + "-wal", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _try_insert(connection: sqlite3.Connection, last: int) -> None:
    """Reading does not show damage in the page that takes the next facts: its free space, the way to it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_INSERTS[1], (last + 1, "", 0, bytes(64), 0))
    finally:
        connection.rollback()


def explain(error: Exception) -> str:
    """What an error of SQLite or the system means, in the user's words, with what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = error.errno if isinstance(error, OSError) else None
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return "no space is left there: free some, or set state_dir to another disk"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program is writing to it: end that program"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "no permission to write there: set state_dir to a folder of yours"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
