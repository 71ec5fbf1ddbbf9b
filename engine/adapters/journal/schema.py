"""The tables of deck.db, its versions, and how a connection to it is made."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .... import __version__
from ...errors import EngineUnavailableError

APPLICATION_ID = 0x67706464
"""Marks the file as a journal of gpudeck (SQLite header, offset 68)."""

Step = Callable[[sqlite3.Connection], None]

_CREATE = (
    "CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL,"
    " body BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE versions (version INTEGER PRIMARY KEY, since_wall REAL NOT NULL, gpudeck TEXT NOT NULL)",
    "CREATE TABLE opened (yes INTEGER NOT NULL)",
    "INSERT INTO opened VALUES (0)",
)


def _no_steps() -> Mapping[int, Step]:
    return {}


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of the tables; *steps* leads from version k to k + 1.

    In every version `facts` has the columns of the first one, which are read before anything is migrated.
    """

    version: int = 1
    create: tuple[str, ...] = _CREATE
    steps: Mapping[int, Step] = field(default_factory=_no_steps)


SCHEMA = Schema()


def connect(path: str, mode: str = "mode=rwc") -> sqlite3.Connection:
    """A connection in autocommit mode, usable from any one thread at a time. A new file is for its owner only, and so
    is the -wal that takes its mode from it. Raises sqlite3.Error, OSError."""
    if mode == "mode=rwc" and not os.path.exists(path):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    uri = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + "?" + mode
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Durable commits; checkpoints are left to the journal, which sees their errors."""
    if connection.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
        raise EngineUnavailableError(f"{path}: its file system cannot keep SQLite's WAL: set state_dir to a local disk")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=0")


def create(connection: sqlite3.Connection, schema: Schema) -> None:
    """Make the tables, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in schema.create:
        connection.execute(statement)
    _stamp(connection, schema.version)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
    """Bring an older db to *schema*, all steps or none, after a copy `deck.db.v1` of it was made beside it."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == schema.version:
        return
    _copy(connection, f"{path}.v{version}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in range(version, schema.version):
            schema.steps[step](connection)
            _stamp(connection, step + 1)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.rollback()
        raise EngineUnavailableError(
            f"{path} (format {version}) cannot be brought to format {schema.version}: {error}; nothing was changed"
        ) from error


def refuse_newer(path: str, version: int, schema: Schema) -> None:
    """Raise EngineUnavailableError for a db that a newer gpudeck wrote."""
    if version > schema.version:
        raise EngineUnavailableError(
            f"{path} was written by a newer gpudeck (format {version}, this one knows {schema.version}): "
            "upgrade gpudeck; nothing was changed"
        )


def _stamp(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("INSERT INTO versions VALUES (?, ?, ?)", (version, time.time(), __version__))
    connection.execute(f"PRAGMA user_version={version}")


def _copy(connection: sqlite3.Connection, target: str) -> None:
    """A copy through SQLite's backup, which sees what is still in the WAL as a copy of the file does not."""
    part = target + ".part"
    if os.path.exists(part):
        os.unlink(part)
    copy = connect(part)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    os.replace(part, target)
