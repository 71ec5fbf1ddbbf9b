"""The journal in SQLite: `ports.Journal` for a deck, and the thread that writes it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from ...core.events import Fact
from ...errors import EngineUnavailableError
from ...ports import Done, JournalBrokenError
from .codec import Encoded, FactCodec
from .db import CODEC, SCHEMA, Opened, Schema, explain, insert, open_db, read

OnDisk = Callable[[bool, str], None]

LINGER_S = 0.1
"""How long facts that are not durable wait for company."""
RETRY_S = 1.0
"""How often a full disk is tried again; no kernel event tells of free space."""
_CHECKPOINT_PAGES = 1000
_CHECKPOINT_BUSY_PAGES = 8000
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BUSY, _NAPPING, _ASLEEP = range(3)
_RESERVE_BYTES = 1 << 20
_MARGIN_BYTES = 1 << 18
_PROBE_BYTES = 1 << 16
_LOG = logging.getLogger("gpudeck.journal")


class DiskFullError(OSError):
    """Nothing can be written now; later it may. `errno` is ENOSPC, EDQUOT, EFBIG or EBUSY."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class SqliteJournal:
    """The facts of a deck in deck.db (WAL, synchronous=FULL), written by one thread.

    `submit` encodes and hands over; callbacks run in the journal's thread, in the order of the calls. Each commit
    takes with it all that was handed over meanwhile; facts that are not durable wait for the next that are, at most
    100 ms. A callback that wakes another thread costs more than the rest of a submit: give one only where an effect
    waits for the facts.

    Full disk: it fails with OSError (ENOSPC, EDQUOT; EBUSY when another program locks the db), none of their
    facts is written, and a reserve of 1 MiB is given free. With `keep=True` the facts stay first in line all the
    same and are written, in order, into that space or when there is more; use it for facts that the caller's state
    contains already. Until the reserve can be made again, which is tried at each call and every second, calls
    without `keep` fail at once. `on_disk(full, why)` is called in the journal's thread at both turns; at
    `on_disk(False, "")` everything kept is on disk.

    A failed fsync, or another error of the disk: JournalBrokenError for this and everything after it. What was at
    hand may be on disk or not.
    """

    def __init__(self, path: str, opened: Opened, codec: FactCodec, reserve: Reserve) -> None:
        self.damage = opened.damage
        """What `open` found damaged, kept and set aside, as a sentence for the user; "" when all is sound."""
        self._path = path
        self._codec = codec
        self._encode = codec.encode
        self._loaded: list[Fact] | None = opened.facts
        self._writer = _Writer(path, opened.connection, len(opened.facts), reserve)
        self._submit = self._writer.submit
        self.count = len(opened.facts)
        """Facts on disk and handed over."""

    @classmethod
    def open(cls, path: str, *, codec: FactCodec = CODEC, schema: Schema = SCHEMA) -> SqliteJournal:
        """Open or begin the journal at *path* and read all of it. The caller holds the deck's lock.

        Damaged files are set aside and what is sound goes on in a new db (see `damage`).
        Raises EngineUnavailableError: written by a newer gpudeck, no permission, no space, locked.
        """
        reserve = Reserve(os.path.join(os.path.dirname(path), "reserve"))
        try:
            reserve.make()
        except OSError as error:
            raise EngineUnavailableError(f"{path} cannot be opened: {explain(error)}") from error
        return cls(path, open_db(path, codec, schema), codec, reserve)

    @property
    def on_disk(self) -> OnDisk | None:
        """Told in the journal's thread when the disk is full and when it no longer is."""
        return self._writer.on_disk

    @on_disk.setter
    def on_disk(self, tell: OnDisk | None) -> None:
        self._writer.on_disk = tell

    def load(self) -> Iterator[Fact]:
        """All facts on disk, in order. The first call hands out what `open` read, if nothing was appended since."""
        facts, self._loaded = self._loaded, None
        if facts is None:
            facts = read(self._path, self._codec)
        return iter(facts)

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        """See `ports.Journal`; from any thread. *done* must be quick; what it raises is only logged."""
        self._loaded = None
        self.count += len(facts)
        self._submit(_Waiting(self._encode(facts), durable, keep, done))

    def close(self) -> None:
        """Write what is pending and close. Idempotent; waits for the disk."""
        self._writer.close()


@dataclass(slots=True)
class _Waiting:
    """One call of `submit`."""

    encoded: Sequence[Encoded]
    durable: bool
    keep: bool
    done: Done | None


class _Writer:
    """Writes behind row *last* until `close`. Owns the connection from here on."""

    def __init__(self, path: str, connection: sqlite3.Connection, last: int, reserve: Reserve) -> None:
        self.on_disk: OnDisk | None = None
        self._path = path
        self._connection = connection
        self._last = last
        self._reserve = reserve
        self._inbox: deque[_Waiting] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._state = _BUSY
        self._closing = False
        self._full: DiskFullError | None = None
        self._broken = ""
        self._backlog: list[Encoded] = []
        self._wal_pages = 0
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, waiting: _Waiting) -> None:
        """Hand over, from any thread. The thread is woken only when it would not look in time by itself."""
        if self._closing:
            raise JournalBrokenError("the journal is closed")
        self._inbox.append(waiting)
        state = self._state
        if state == _ASLEEP or (state == _NAPPING and waiting.durable):
            self._state = _BUSY
            self._bell.put(None)

    def close(self) -> None:
        """Write what is there, close the db, end the thread. Idempotent."""
        self._closing = True
        self._bell.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch, ending = self._collect()
            try:
                errors = self._write(batch)
            except Exception as error:  # Who appends would wait for ever for a thread that died.
                _LOG.exception("the journal's thread failed")
                errors = self._break(batch, repr(error))
            _finish(batch, errors)
            if ending:
                break
            self._checkpoint()
        self._close_db()

    def _collect(self) -> tuple[list[_Waiting], bool]:
        """Wait for something to write; an empty batch means that a full disk is to be tried again."""
        batch: list[_Waiting] = []
        deadline = time.monotonic() + LINGER_S
        while True:
            ending = self._closing
            # Announced before the inbox is looked at: an append is either seen here or sees that it must ring.
            self._state = _NAPPING
            if self._drain(batch) or ending:
                break
            left_s = deadline - time.monotonic()
            if left_s > 0:
                self._listen(left_s)
                continue
            if batch:
                break
            self._state = _ASLEEP
            if not self._inbox and not self._listen(RETRY_S if self._full else None):
                break
            deadline = time.monotonic() + LINGER_S
        self._state = _BUSY
        return batch, ending

    def _drain(self, batch: list[_Waiting]) -> bool:
        """Move the inbox to *batch*; True when something in it may not wait."""
        urgent = False
        while self._inbox:
            waiting = self._inbox.popleft()
            batch.append(waiting)
            urgent = urgent or waiting.durable
        return urgent

    def _listen(self, timeout_s: float | None) -> bool:
        try:
            self._bell.get(timeout=timeout_s)
        except Empty:
            return False
        return True

    def _write(self, batch: list[_Waiting]) -> list[Exception | None]:
        """Commit the backlog and *batch*. Returns the error of each append, None where it is written."""
        if self._broken:
            return self._break(batch, self._broken)
        if self._full and not self._space_returned():
            return self._write_kept(batch, self._full)
        encoded = batch[0].encoded if len(batch) == 1 else [one for waiting in batch for one in waiting.encoded]
        try:
            self._commit(encoded)
        except sqlite3.Error as error:
            full = self._no_space(error)
            return self._write_kept(batch, full) if full else self._break(batch, explain(error))
        return [None] * len(batch)

    def _write_kept(self, batch: list[_Waiting], full: DiskFullError) -> list[Exception | None]:
        """On a full disk: what must be kept goes into the space that the reserve left, or waits in memory."""
        self._backlog += [one for waiting in batch if waiting.keep for one in waiting.encoded]
        try:
            self._commit(self._backlog)
            self._backlog = []
        except sqlite3.Error as error:
            if not self._no_space(error):
                return self._break(batch, explain(error))
        return [None if waiting.keep and not self._backlog else full for waiting in batch]

    def _commit(self, encoded: Sequence[Encoded]) -> None:
        insert(self._connection, encoded, self._last)
        self._last += len(encoded)
        self._wal_pages += 1 + len(encoded) // 8

    def _no_space(self, error: sqlite3.Error) -> DiskFullError | None:
        """Give the reserve free and say so; None when the error does not pass by itself: the journal is broken."""
        with contextlib.suppress(OSError):
            self._reserve.release()
        number = self._passing_errno(error.sqlite_errorcode)
        if not number:
            return None
        full = DiskFullError(number, explain(error), self._path)
        if not self._full:
            self._full = full
            self._tell(True, explain(error))
        return full

    def _passing_errno(self, code: int) -> int:
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE):
            return errno.ENOSPC
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return errno.EBUSY
        if code == sqlite3.SQLITE_IOERR_WRITE:
            # SQLite calls a used-up quota an I/O error; writing a file of our own tells which it is.
            refused = self._reserve.probe()
            if refused is not None and refused.errno in _FULL_ERRNOS:
                return refused.errno
        return 0

    def _space_returned(self) -> bool:
        """Make the reserve again and write the backlog, if there is space for both."""
        try:
            self._reserve.make()
            self._commit(self._backlog)
        except (OSError, sqlite3.Error):
            with contextlib.suppress(OSError):
                self._reserve.release()
            return False
        self._backlog = []
        self._full = None
        self._tell(False, "")
        return True

    def _break(self, batch: list[_Waiting], why: str) -> list[Exception | None]:
        if not self._broken:
            self._broken = why
        return [JournalBrokenError(f"{self._path}: {why}") for _ in batch]

    def _tell(self, full: bool, why: str) -> None:
        if self.on_disk is not None:
            try:
                self.on_disk(full, why)
            except Exception:  # Callers' code: the thread must outlive it.
                _LOG.exception("a callback of the journal failed")

    def _checkpoint(self) -> None:
        """Bring the WAL into the db now and then, after the futures are done; sooner when nothing waits."""
        if self._wal_pages < (_CHECKPOINT_BUSY_PAGES if self._inbox else _CHECKPOINT_PAGES) or self._broken:
            return
        self._wal_pages = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            # Without space for the db the WAL just goes on growing; the next append tells whether it can.
            if not self._no_space(error):
                self._break([], explain(error))

    def _close_db(self) -> None:
        if self._backlog:
            _LOG.error("%s: %d facts could not be written, the disk is full", self._path, len(self._backlog))
        if self._full:
            with contextlib.suppress(OSError):
                self._reserve.release()
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()  # SQLite brings the -wal in and removes it, if there is space


def _finish(batch: list[_Waiting], errors: list[Exception | None]) -> None:
    for waiting, error in zip(batch, errors, strict=True):
        if waiting.done is not None:
            try:
                waiting.done(error)
            except Exception:  # Callers' code: the thread must outlive it.
                _LOG.exception("a callback of the journal failed")


class Reserve:
    """Space kept for what must be written when the disk is full."""

    def __init__(self, path: str) -> None:
        self._path = path

    def make(self) -> None:
        """Take the space, a little more of it for a moment so that full and not full do not alternate. Idempotent.
        Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_size == _RESERVE_BYTES:
                return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _allocate(fd, _RESERVE_BYTES + _MARGIN_BYTES)
            os.ftruncate(fd, _RESERVE_BYTES)
        except OSError:
            os.ftruncate(fd, 0)
            raise
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give the space to the file system."""
        os.truncate(self._path, 0)

    def probe(self) -> OSError | None:
        """Why nothing can be written here now; None when it can. Tells a full quota from a failing disk."""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.pwrite(fd, b"\1" * _PROBE_BYTES, 0) < _PROBE_BYTES:
                    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            return error
        return None


def _allocate(fd: int, count: int) -> None:
    try:
        os.posix_fallocate(fd, 0, count)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        if os.pwrite(fd, bytes(count), 0) < count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
