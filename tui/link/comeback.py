"""Waits for an engine: one that the user wants, or one that somebody else starts, which writes into the deck's state
folder. The kernel tells of that; where it cannot, it is looked for every other second."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from contextlib import closing

from ...engine.client import Connection
from ...engine.errors import DeckError

LOOK_S = 2.0
"""Between looks where the kernel does not tell of the folder, or where an engine is there and cannot be followed."""
_REST_S = 0.1
"""Writes that follow each other are one reason to look."""


class Again:
    """A `threading.Event` with a descriptor that can be polled."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def set(self) -> None:
        os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self, most_s: float) -> bool:
        """Whether it is set, at once or within that time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(int(most_s * 1000)))


class Comeback:
    """Of one deck's engines."""

    def __init__(
        self,
        find: Callable[[], Connection | None] = lambda: None,
        folder: Callable[[], str] = lambda: "",
    ) -> None:
        """*find*: a connection to an engine that runs the deck, None where there is none. *folder*: where the deck's
        state lies; "" where it has none. Both raise DeckError."""
        self._find = find
        self._folder = folder

    def wait(self, again: Again, gone: int) -> Connection | None:
        """To an engine that somebody has started; None: *again* is set. *gone*: pid of one that has said goodbye, and
        may not be gone yet."""
        from ...engine.adapters.inotify import Writes  # the first picture needs none of this

        while True:
            with closing(Writes()) as writes:  # anew each time: the folder may be another one
                told = self._watch(writes.watch) and writes.told
                connection, sure = self._look(gone)
                if connection is not None:
                    return connection
                writes.wait([again.fileno()], None if told and sure else LOOK_S)
            if again.wait(_REST_S):
                return None

    def _watch(self, watch: Callable[[str], None]) -> bool:
        """Whether the kernel can tell of the folder."""
        from ...engine.adapters.state.mounts import on_network

        try:
            folder = self._folder()
        except DeckError:
            return False
        if not folder or on_network(folder):
            return False
        watch(folder)
        return os.path.isdir(folder)

    def _look(self, gone: int) -> tuple[Connection | None, bool]:
        """A connection, and whether there is none for sure: an engine may be frozen, end just now, or run with other
        options."""
        try:
            connection = self._find()
        except DeckError:
            return None, False
        if connection is not None and connection.hello.pid == gone:
            connection.close()
            return None, False
        return connection, True
