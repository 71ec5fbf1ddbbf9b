"""Sends what is due, each message once: what was sent is noted beside the journal."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..atomic import write_private
from ..core.spec import Notify
from .delivery import deliver
from .message import Happening, Notice, Origin, fold
from .targets import Targets


class Mark:
    """A file beside the journal. Reads and writes block: used by the sender's thread alone."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._run: int | None = None
        """None: nothing has been told of this deck yet."""
        self._told: set[str] = set()

    def read(self) -> None:
        """What cannot be read counts as nothing told; what is past then stays untold."""
        try:
            with open(self._path, encoding="utf-8") as file:
                found: Any = json.load(file)
            run, told = found["run"], found["told"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(run, int) and isinstance(told, list):
            self._run = run
            self._told = {item for item in cast("list[object]", told) if isinstance(item, str)}

    def new(self, happened: Iterable[Happening]) -> list[Happening]:
        """Those that have not been told; they count as told from now on. Of what is past: only where this run was being
        told of before."""
        found: list[Happening] = []
        run_before = self._run
        for one in happened:
            if self._run is None or one.run > self._run:
                self._run, self._told = one.run, set()
            known = bool(one.key) and one.key in self._told
            if one.key and one.run == self._run:
                self._told.add(one.key)
            if not known and not (one.past and one.run != run_before):
                found.append(one)
        return found

    def write(self) -> None:
        """Raises OSError."""
        content = {"run": self._run, "told": sorted(self._told)}
        write_private(self._path, json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape"))


GATHER_S = 0.5
"""What happens so soon after the first belongs to the same message."""
MAX_WAITING = 100_000

Deliver = Callable[[Notice, Targets, Mapping[str, str], float], dict[str, str]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to send, and where."""

    notify: Notify
    targets: Targets
    origin: Origin
    environ: Mapping[str, str]
    """Of the user's command."""


class Sender:
    """`put`, `change` and `close` on any thread; none of them blocks. The thread is a daemon: what hangs ends with the
    process."""

    def __init__(
        self, settings: Settings, mark: Mark, note: Callable[[str], None], *, deliver: Deliver = deliver
    ) -> None:
        """*note* is told, on the sender's thread, what could not be sent: once until it works again."""
        self._settings = settings
        self._mark = mark
        self._note = note
        self._deliver = deliver
        self._queue: queue.SimpleQueue[Happening | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._failing: set[str] = set()
        self._next_at = 0.0
        self._over: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="gpudeck-notify", daemon=True)
        self._thread.start()

    def put(self, happened: Happening) -> None:
        if self._queue.qsize() < MAX_WAITING:
            self._queue.put(happened)

    def change(self, settings: Settings) -> None:
        """What is sent from now on goes there."""
        self._settings = settings

    def close(self, over: Callable[[], None] = lambda: None) -> None:
        """Send what waits, at once. *over* is called on the sender's thread when that is done."""
        self._over = over
        self._closing.set()
        self._queue.put(None)

    def _run(self) -> None:
        self._mark.read()
        try:
            while batch := self._gather():
                if fresh := self._fresh(batch):
                    self._next_at = time.monotonic() + self._settings.notify.every_s
                    self._send(fresh)
        finally:
            self._over()

    def _gather(self) -> list[Happening]:
        """What one message is about; empty at the end."""
        first = self._queue.get()
        if first is None:
            return []
        if first.kind == "begin":
            return [first]
        if not self._closing.is_set():
            self._closing.wait(max(GATHER_S, self._next_at - time.monotonic()))
        batch = [first]
        with contextlib.suppress(queue.Empty):
            while (one := self._queue.get_nowait()) is not None:
                batch.append(one)
            self._queue.put(None)  # the end is seen once more, after this message
        return batch

    def _fresh(self, batch: list[Happening]) -> list[Happening]:
        """Written down before it is sent: after a crash in between it stays untold rather than being told twice."""
        fresh = self._mark.new(batch)
        try:
            self._mark.write()
        except OSError as error:
            self._tell("the mark", f"what has been told cannot be kept ({error}): a restart may tell it again")
        else:
            self._failing.discard("the mark")
        return fresh

    def _send(self, fresh: list[Happening]) -> None:
        settings = self._settings
        if not (settings.targets.urls or settings.targets.command):
            return
        notice = fold(settings.origin, fresh)
        found = self._deliver(notice, settings.targets, settings.environ, settings.notify.timeout_s)
        for name, trouble in found.items():
            if trouble:
                self._tell(name, f"not sent to {name}: {trouble}")
            else:
                self._failing.discard(name)

    def _tell(self, name: str, text: str) -> None:
        if name not in self._failing:
            self._failing.add(name)
            self._note(f"notify: {text}; not said again until it works")
