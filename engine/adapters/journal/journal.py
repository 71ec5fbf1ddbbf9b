"""The journal in SQLite: `ports.Journal` for a deck."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ...core.events import Fact
from ...errors import EngineUnavailableError
from ...ports import Done
from .codec import FactCodec
from .files import Glance, Reserve
from .opening import Opened, explain, open_db
from .reading import CODEC, read
from .reading import read_facts as read_facts
from .schema import SCHEMA, Schema
from .writer import OnDisk, Waiting, Writer


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
        self._writer = Writer(path, opened.connection, len(opened.facts), reserve)
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
            # Not `glance`: closing another descriptor of the file would drop SQLite's own locks on it.
            facts = read(self._path, self._codec, Glance(True)).facts
        return iter(facts)

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        """See `ports.Journal`; from any thread. *done* must be quick; what it raises is only logged."""
        self._loaded = None
        self.count += len(facts)
        self._submit(Waiting(self._encode(facts), durable, keep, done))

    def close(self) -> None:
        """Write what is pending and close. Idempotent; waits for the disk."""
        self._writer.close()
