"""deck.db as SQLite keeps it: begun, opened, migrated, looked at, set aside where it is damaged.

SQLite recovers what a kill or a power cut has torn. `PRAGMA quick_check` and the facts' own crc tell of what it cannot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .... import __version__
from ...atomic import sync_dir
from ...core.events import Fact
from ...errors import EngineUnavailableError
from ...text import plural
from ...tuning import without_collector
from .codec import Encoded, FactCodec, UnknownFactError, place

CODEC = FactCodec()
MAX_ROWS = 32
"""Rows of one INSERT; each number of rows is a statement of its own in the connection's cache."""
_APPLICATION_ID = 0x67706464
"""Marks the file as a journal of gpudeck."""
_BATCH = 8192
_LOOKS = 3
_LOOK_AGAIN_S = 0.02
_SUFFIXES = ("", "-wal", "-shm")
_INSERTS = tuple(
    "INSERT INTO facts (seq, kind, version, body, crc) VALUES " + ",".join(["(?,?,?,?,?)"] * count)
    for count in range(MAX_ROWS + 1)
)

Step = Callable[[sqlite3.Connection], None]


def _no_flag(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE opened")


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of the tables; *steps* leads from version k to k + 1.

    In every version `facts` has the columns of the first one, which are read before anything is migrated.
    """

    version: int = 2
    create: tuple[str, ...] = (
        "CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL,"
        " body BLOB NOT NULL, crc INTEGER NOT NULL)",
        "CREATE TABLE versions (version INTEGER PRIMARY KEY, since_wall REAL NOT NULL, gpudeck TEXT NOT NULL)",
    )
    steps: Mapping[int, Step] = field(default_factory=lambda: {1: _no_flag})


SCHEMA = Schema()


@dataclass(frozen=True, slots=True)
class Opened:
    connection: sqlite3.Connection
    facts: list[Fact]
    damage: str
    """What was damaged, kept and set aside, as a sentence for the user; "" when all was sound."""


def open_db(path: str, codec: FactCodec, schema: Schema) -> Opened:
    """A connection to a sound db of today's schema, and all its facts. The caller holds the deck's lock.

    Raises EngineUnavailableError: newer, not writable, disk full, used by another program.
    """
    try:
        _finish_replacement(path)
        facts, problem = _read(path, codec, schema, "mode=ro" if _has_wal(path) else _ALONE)
        damage = _mend(path, facts, problem, codec, schema) if problem else ""
        if not _size(path):
            _build(path, schema, [])
        return Opened(_connect(path, schema), facts, damage)
    except UnknownFactError as error:
        raise EngineUnavailableError(f"{path}: {error}: open it with the gpudeck that wrote it") from error
    except (sqlite3.Error, OSError) as error:
        raise EngineUnavailableError(f"{path} cannot be opened: {explain(error)}") from error


def look_at(path: str) -> tuple[list[Fact], str]:
    """All sound facts of a journal and what is damaged, for whoever does not hold the deck's lock; no file is made or
    changed, not even one beside the db. A missing db has no facts. Not for the process that has the journal open.

    Raises EngineUnavailableError: a newer gpudeck wrote it, it cannot be read.
    """
    if not os.path.exists(path) and os.path.exists(_new(path)):
        path = _new(path)  # an engine was killed while it put this into the place of a damaged one
    try:
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(sqlite3.Error, OSError):
                facts, problem = _look(path)
                if not problem:
                    return facts, ""
            time.sleep(_LOOK_AGAIN_S)  # an engine may have opened or closed it meanwhile
        return _look(path)
    except UnknownFactError as error:
        raise EngineUnavailableError(f"{path}: {error}: look with the gpudeck that wrote it") from error
    except (sqlite3.Error, OSError) as error:
        raise EngineUnavailableError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read(path: str, codec: FactCodec) -> list[Fact]:
    """The facts that are committed, for the process that has the journal open."""
    return _read(path, codec, SCHEMA, "mode=ro")[0]


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


# -- reading ----------------------------------------------------------------------------------------------------------

_ALONE = "mode=ro&immutable=1"
"""Without a -wal: SQLite would make one to read."""


def _read(path: str, codec: FactCodec, schema: Schema, mode: str) -> tuple[list[Fact], str]:
    """The sound facts from the beginning, and why there are no more, "" where all is verified. The db stays as it is,
    as does its -wal: *mode* is a read-only one.

    Raises UnknownFactError, EngineUnavailableError for a newer db, and sqlite3.Error for what is no damage (busy, no
    permission).
    """
    facts: list[Fact] = []
    if not _size(path):
        # SQLite would remove the -wal of an empty db.
        return facts, "it is missing or empty, its -wal is not" if _size(path + "-wal") else ""
    connection = _connection(path, mode)
    connection.text_factory = bytes
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,) or version < 1:
            return facts, "it is no journal of gpudeck"
        if version > schema.version:
            raise EngineUnavailableError(
                f"{path} was written by a newer gpudeck (format {version}, this one knows {schema.version}): "
                "upgrade gpudeck; nothing was changed"
            )
        return facts, _decode_all(connection, codec, facts) or _quick_check(connection)
    except UnicodeDecodeError as error:
        # A message of SQLite that quotes damaged text.
        return facts, error.object.decode(errors="replace")
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return facts, str(error)
    finally:
        connection.close()


def _decode_all(connection: sqlite3.Connection, codec: FactCodec, facts: list[Fact]) -> str:
    rows = connection.execute("SELECT seq, kind, version, body, crc FROM facts ORDER BY seq")
    with without_collector():
        while batch := rows.fetchmany(_BATCH):
            if problem := codec.decode(batch, facts):
                return problem
    return ""


def _quick_check(connection: sqlite3.Connection) -> str:
    """What is wrong outside of the facts that there are: the next ones would go there."""
    told: bytes = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    return "" if told == b"ok" else told.decode(errors="replace")


def _look(path: str) -> tuple[list[Fact], str]:
    if not _has_wal(path):
        return _read(path, CODEC, SCHEMA, _ALONE)
    if os.path.exists(path + "-shm"):
        with contextlib.suppress(sqlite3.Error):
            return _read(path, CODEC, SCHEMA, "mode=ro&readonly_shm=1")
    import shutil  # seldom needed
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gpudeck-") as folder:
        # SQLite would make an index of the -wal, or mend it.
        copy = os.path.join(folder, os.path.basename(path))
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, copy + suffix)
        return _read(copy, CODEC, SCHEMA, "mode=ro")


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


# -- making and mending -----------------------------------------------------------------------------------------------


def _new(path: str) -> str:
    """A whole db that is to take the place of a damaged one."""
    return path + ".new"


def _connection(path: str, mode: str) -> sqlite3.Connection:
    """In autocommit mode, usable from any one thread at a time. Raises sqlite3.Error."""
    uri = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + "?" + mode
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)


def _connect(path: str, schema: Schema) -> sqlite3.Connection:
    """Durable commits; checkpoints are left to the journal, which sees their errors."""
    connection = _connection(path, "mode=rw")
    try:
        if connection.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            raise EngineUnavailableError(
                f"{path}: its file system cannot keep SQLite's WAL: set state_dir to a local disk"
            )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        _migrate(connection, path, schema)
    except (sqlite3.Error, OSError, EngineUnavailableError):
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
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


def _copy(connection: sqlite3.Connection, target: str) -> None:
    """A copy through SQLite's backup, which sees what is still in the WAL as a copy of the file does not."""
    part = _private(target + ".part")
    copy = _connection(part, "mode=rw")
    try:
        connection.backup(copy)
    finally:
        copy.close()
    os.replace(part, target)


def _build(target: str, schema: Schema, encoded: Sequence[Encoded]) -> None:
    """Make a db that holds these facts: who looks, or comes after a kill, finds all of it or none."""
    part = _private(target + ".part")
    connection = _connection(part, "mode=rw")
    try:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in schema.create:
            connection.execute(statement)
        _stamp(connection, schema.version)
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute("COMMIT")
        insert(connection, encoded, 0)
    finally:
        connection.close()
    os.rename(part, target)
    sync_dir(os.path.dirname(target))


def _stamp(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("INSERT INTO versions VALUES (?, ?, ?)", (version, time.time(), __version__))
    connection.execute(f"PRAGMA user_version={version}")


def _private(path: str) -> str:
    """An empty file for its owner only, as is the -wal that takes its mode from it."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return path


def _mend(path: str, facts: Sequence[Fact], problem: str, codec: FactCodec, schema: Schema) -> str:
    """Begin a new db with what is sound; the damaged files are kept aside. Returns the sentence for the user."""
    _build(_new(path), schema, codec.encode(facts))
    folder = _set_aside(path)
    os.rename(_new(path), path)
    sync_dir(os.path.dirname(path))
    kept = f"kept the first {plural(len(facts), 'fact')}" if facts else "nothing in it could be kept"
    return f"{os.path.basename(path)} was damaged ({problem}): {kept}; it is set aside in {folder}"


def _finish_replacement(path: str) -> None:
    """Complete or drop a `_mend` that a crash cut short."""
    if not os.path.exists(_new(path)):
        return
    if os.path.exists(path):
        os.unlink(_new(path))
        return
    _set_aside(path)
    os.rename(_new(path), path)
    sync_dir(os.path.dirname(path))


def _set_aside(path: str) -> str:
    """Move the db, its -wal and its -shm together into `damaged-DATE/` beside them, and return the folder. The db goes
    first: from then on a crash leaves a replacement that is to be finished."""
    present = [suffix for suffix in _SUFFIXES if os.path.exists(path + suffix)]
    if not present:
        return ""
    base = os.path.join(os.path.dirname(path), time.strftime("damaged-%Y%m%d-%H%M%S"))
    folder, count = base, 1
    while os.path.exists(folder):
        count += 1
        folder = f"{base}-{count}"
    os.mkdir(folder, 0o700)
    for suffix in present:
        os.rename(path + suffix, os.path.join(folder, os.path.basename(path) + suffix))
    return folder


def _has_wal(path: str) -> bool:
    return os.path.exists(path + "-wal")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
