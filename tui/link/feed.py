"""Follows the engine in a thread of its own, and brings it back when it vanishes.

What it tells is folded into one `Change` that waits for the screen: a slow screen sees the newest state late, it never
works off old ones. The thread is a daemon: nothing that hangs here holds up the exit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from ...engine.client.connection import Connection, Gone
from ...engine.errors import DeckError
from ...engine.protocol.wire import Delta, Ready, Snapshot, Tasks, ToClient
from ..model import Change, Link

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


QUIET_S = 5.0
"""An engine that has said nothing for so long is asked for a sign of life."""
PATIENCE_S = 5.0
"""One that has not answered by then is said to be silent."""
TICK_S = 1.0
"""How often it is said for how long, then."""


class Pulse:
    """Counts the seconds that were waited for in vain, not those of a clock: a screen that was stopped for an hour
    itself has not waited."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._asked_after_s: float | None = None

    @property
    def wait_s(self) -> float:
        """How long to wait for the next word."""
        if self._asked_after_s is None:
            return QUIET_S
        return TICK_S if self.silent_s else PATIENCE_S

    @property
    def silent_s(self) -> float:
        """For how long a question has not been answered; 0: there is nothing to worry about."""
        unanswered_s = 0.0 if self._asked_after_s is None else self._waited_s - self._asked_after_s
        return unanswered_s if unanswered_s >= PATIENCE_S else 0.0

    def waited(self, wait_s: float) -> bool:
        """Nothing has come for *wait_s*. True: it is to be asked now."""
        self._waited_s += wait_s
        if self._asked_after_s is None and self._waited_s >= QUIET_S:
            self._asked_after_s = self._waited_s
            return True
        return False

    def heard(self) -> bool:
        """Anything has come. True: it had been silent."""
        was_silent = bool(self.silent_s)
        self._waited_s, self._asked_after_s = 0.0, None
        return was_silent


Open = Callable[[bool], Connection]
"""A connection to the deck's engine, started where none runs. True: one was there and vanished. Raises DeckError."""

_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before an engine that cannot be reached, or that did not last, is tried again."""
_STEADY_S = 10.0
"""An engine that lived this long is not one that dies of its start."""


class Feed:
    """Start it, then `take` what has come whenever `wake` is called."""

    def __init__(self, open_: Open, comeback: Comeback | None = None) -> None:
        """*comeback*: finds an engine that somebody else starts after a goodbye or a failure."""
        self._open = open_
        self._comeback = comeback or Comeback()
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._change: Change | None = None
        self._connection: Connection | None = None
        self._followed = 0
        """Pid of the engine that is or was followed last."""
        self._closing = False
        self._again = Again()
        self.opened = threading.Event()
        """The first attempt to reach an engine has succeeded or failed."""
        self.refused: DeckError | None = None
        """Why it failed."""
        self._thread = threading.Thread(target=self._run, name="gpudeck-feed", daemon=True)

    def start(self) -> None:
        """Begin at once, before there is anything to wake."""
        self._thread.start()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call *wake* (from the feed's thread) whenever something waits that nobody has been woken for."""
        with self._lock:
            self._wake = wake
            waits = self._change is not None
        if waits:
            wake()

    def take(self) -> Change | None:
        """What has come since the last call."""
        with self._lock:
            change, self._change = self._change, None
        return change

    def say(self, text: str) -> None:
        """A line for the user, from any thread."""
        self._put(lambda change: change.said.append(text))

    def reconnect(self) -> None:
        """Try again now, after a goodbye or a failure."""
        self._again.set()

    def close(self) -> None:
        """Let go of the engine. Returns at once."""
        self._closing = True
        self._again.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._serve()

    def _serve(self) -> None:
        """Until the screen closes."""
        vanished, failures = False, 0
        found: Connection | None = None
        while not self._closing:
            began = time.monotonic()
            try:
                connection = self._connection = found or self._open(vanished)
                if self._closing:  # who closed it found nothing to let go of yet
                    connection.close()
                    return
                self.opened.set()
                vanished = self._follow(connection)
            except DeckError as error:
                self._fail(error)
            lasted = time.monotonic() - began > _STEADY_S
            failures = 0 if lasted else failures + 1
            found = None if vanished else self._comeback.wait(self._again, self._followed)
            if vanished and failures:
                self._again.wait(_AGAIN_S[min(failures, len(_AGAIN_S)) - 1])
            self._again.clear()
        if found is not None:
            found.close()

    def _follow(self, connection: Connection) -> bool:
        """Until the engine is gone. Returns True when it vanished without a word: the next one is wanted at once."""
        hello = connection.hello
        self._followed = hello.pid
        live = Link("live", pid=hello.pid, version=hello.version, host=hello.host)
        self._link(live)
        try:
            with connection:
                connection.watch()
                self._listen(connection, live)
        except Gone as gone:
            self._connection = None
            if not gone.goodbye:
                self._link(Link("restarting", str(gone), hello.pid, hello.version, hello.host))
                return True
            self._link(Link("over", str(gone), hello.pid, hello.version, hello.host))
        except DeckError as error:
            self._connection = None
            self._link(Link("failed", str(error)))
        return False

    def _listen(self, connection: Connection, live: Link) -> None:
        """Until the engine is gone, which raises Gone. One that does not answer may come back, so it is waited for."""
        pulse = Pulse()
        while True:
            wait_s = pulse.wait_s
            for message in connection.messages(wait_s):
                if pulse.heard():
                    self._link(live)
                self._note(message)
            if pulse.waited(wait_s):
                connection.ping()
            if pulse.silent_s:
                self._link(replace(live, kind="silent", text=connection.silence(), silent_s=pulse.silent_s))

    def _fail(self, error: DeckError) -> None:
        if not self.opened.is_set():
            self.refused = error
            self.opened.set()
        self._link(Link("failed", str(error)))

    def _link(self, link: Link) -> None:
        def put(change: Change) -> None:
            change.link = link

        self._put(put)

    def _note(self, message: ToClient) -> None:
        match message:
            case Snapshot() | Tasks() | Ready() | Delta():
                self._put(lambda change: _add(change, message))
            case _:
                pass

    def _put(self, put: Callable[[Change], None]) -> None:
        with self._lock:
            first = self._change is None
            change = self._change = self._change or Change()
            put(change)
            wake = self._wake
        if first:
            wake()


def _add(change: Change, message: Snapshot | Tasks | Ready | Delta) -> None:
    match message:
        case Snapshot():
            change.reset, change.rows = True, {}
            change.total, change.whole = message.total, False
            change.head, change.gpus, change.cluster = message.head, message.gpus, message.cluster
        case Tasks(rows=rows):
            change.rows.update((row.index, row) for row in rows)
        case Ready():
            change.whole = True
        case Delta():
            change.rows.update((row.index, row) for row in message.rows)
            change.head = message.head or change.head
            change.gpus = change.gpus if message.gpus is None else message.gpus
            change.cluster = message.cluster or change.cluster
