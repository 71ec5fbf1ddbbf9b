"""Writes attempt-N.json and the links to the newest logs off the start path."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ..atomic import write_atomic
from ..errors import may_pass
from ..logs.files import Link, make_link
from ..snapshot.git_state import GitStates
from .record import encode, read_record

Record = Mapping[str, Any]

_BATCH_S = 0.25
"""How long writes are gathered: making a file is what costs (0.02 to 0.3 ms on ext4), so an attempt that ends sooner
costs one instead of two, and a GPU's link changes once."""
_RETRY_S = 1.0
"""How often an end that met a full disk is tried again."""


class AttemptJsonWriter:
    """One daemon thread. Nothing is dropped and no caller ever waits: nothing starts on a disk that takes nothing, so
    what is unwritten stays as little as what has been started.

    An error is reported once until a write succeeds again, through *on_error*, on the writer's thread; the file is then
    missing or old, never half. Ends that met a full disk are written when there is space.
    """

    def __init__(
        self, on_error: Callable[[str], None], *, git: GitStates | None = None, most_gathered: int = 4096
    ) -> None:
        self.on_ended: Callable[[Sequence[str]], None] = lambda _: None
        """Told in the writer's thread which attempt-N.json have got their end."""
        self._on_error = on_error
        self._most_gathered = most_gathered
        self._git = git if git is not None else GitStates()
        self._host = socket.gethostname()
        self._running: dict[str, Record] = {}
        self._pending: dict[str, Record | None] = {}
        self._links: dict[str, Link] = {}
        self._files: dict[str, bytes] = {}
        """What stands beside them."""
        self._spare: dict[str, Record] = {}
        """For files that have none."""
        self._places: dict[str, Record] = {}
        """Of attempts on a cluster."""
        self._stuck: dict[str, Record | None] = {}
        """Ends that met a full disk."""
        self._failing = self._hurry = self._closed = self._busy = False
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._soon = threading.Condition(lock)
        self._idle = threading.Condition(lock)
        self._thread = threading.Thread(target=self._run, name="attempt-json", daemon=True)
        self._thread.start()

    def begin(self, path: str, header: Record, links: Iterable[Link] = ()) -> None:
        """An attempt started: make its links and write its header to *path*, with the host, and what git says of its
        folder where that is not known. Idempotent."""
        self._put_header(self._running, path, header, links)

    def adopt(self, path: str, header: Record, links: Iterable[Link] = ()) -> None:
        """An earlier engine started it: the same, but a header that is there stays."""
        self._put_header(self._spare, path, header, links)

    def _put_header(self, headers: dict[str, Record], path: str, header: Record, links: Iterable[Link]) -> None:
        with self._work:
            headers[path] = header
            for link in links:
                self._links[link.path] = link
            self._put(path, None)

    def placed(self, path: str, place: Record) -> None:
        """A cluster has taken it, or runs it: write that too."""
        with self._work:
            self._places[path] = place
            self._put(path, self._pending.get(path))

    def end(self, path: str, end: Record) -> None:
        """It ended: write all of it. Without a `begin` in this process the header is read back from the file."""
        with self._work:
            self._put(path, end)

    def keep(self, path: str, raw: bytes) -> None:
        """Write a file beside them, or replace it. One that cannot be written is not tried again."""
        with self._work:
            self._files[path] = raw
            self._work.notify()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Write what is pending now; False when that takes longer."""
        with self._idle:
            self._hurry = True
            self._soon.notify()
            done = self._idle.wait_for(lambda: not (self._pending or self._files or self._busy), timeout_s)
            self._hurry = False
            return done

    def close(self, timeout_s: float = 5.0) -> bool:
        """Flush and end the thread. False: a file system that hangs holds it, and it is left to itself."""
        with self._work:
            self._closed = True
            self._work.notify()
            self._soon.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _put(self, path: str, end: Record | None) -> None:
        if len(self._pending) >= self._most_gathered:
            self._soon.notify()
        if not self._pending:
            self._work.notify()
        self._pending[path] = end

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(self._has_work, _RETRY_S if self._stuck else None)
                if self._pending:
                    self._soon.wait_for(self._must_write, _BATCH_S)
                closing = self._closed
                jobs, self._pending = {**self._stuck, **self._pending}, {}
                links, self._links = self._links, {}
                files, self._files = self._files, {}
                headers = {path: self._running.get(path) for path in jobs}
                self._busy = True
                self._idle.notify_all()
            for link in links.values():
                if os.path.isdir(os.path.dirname(link.path)):
                    self._try(partial(make_link, link))
            for path, raw in files.items():
                if os.path.isdir(os.path.dirname(path)):
                    self._try(partial(_replace, path, raw))
            ended = self._write_all(jobs, headers)
            if ended:
                self.on_ended(ended)
            with self._work:
                for path, end in jobs.items():
                    if end is not None and path not in self._stuck:
                        self._running.pop(path, None)
                        self._spare.pop(path, None)
                        self._places.pop(path, None)
                self._busy = False
                self._idle.notify_all()
                if closing and not (self._pending or self._files):
                    return

    def _write_all(self, jobs: Mapping[str, Record | None], headers: Mapping[str, Record | None]) -> list[str]:
        """Returns which have got their end now."""
        ended: list[str] = []
        self._stuck = {}
        for path, end in jobs.items():
            error = self._try(partial(self._write, path, headers[path], end))
            if error is None and end is not None:
                ended.append(path)
            elif end is not None and isinstance(error, OSError) and may_pass(error):
                self._stuck[path] = end
        return ended

    def _has_work(self) -> bool:
        return bool(self._pending or self._files or self._closed)

    def _must_write(self) -> bool:
        return self._hurry or self._closed or len(self._pending) >= self._most_gathered

    def _try(self, write: Callable[[], None]) -> Exception | None:
        try:
            write()
        except OSError as error:
            self._report(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error))
            return error
        except Exception as error:  # The thread must go on; whoever is told keeps a record.
            self._report(repr(error))
            return error
        self._failing = False
        return None

    def _report(self, what: str) -> None:
        if not self._failing:
            self._failing = True
            self._on_error(f"cannot write what is kept beside the logs: {what}")

    def _write(self, path: str, header: Record | None, end: Record | None) -> None:
        record = {} if header is not None else read_record(path)
        if header is None and not record:
            if not os.path.isdir(os.path.dirname(path)):
                return  # stopped before anything of it was made
            header = self._spare.get(path)
        if header is not None:
            record = {**header, "host": self._host, "git": header["git"] or self._git.of(header["cwd"])}
        record = {**record, **self._places.get(path, {})}
        if end is not None:
            record["end"] = _told_again(end, record.get("end"))
        raw = encode(record)
        if not _create(path, raw):
            _replace(path, raw)


def _told_again(end: Record, before: object) -> Record:
    """*end* of a record that may have it already: an engine that completes it anew knows nothing of what was used."""
    told = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
    if told.get("at") != end["at"]:
        return end
    return {key: told.get(key) if value is None else value for key, value in end.items()}


def _create(path: str, raw: bytes) -> bool:
    """Write a file that does not exist yet. False: it does. Raises OSError, and then leaves nothing."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    try:
        if os.write(fd, raw) != len(raw):
            raise OSError(28, "No space left on device", path)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return True


def _replace(path: str, raw: bytes) -> None:
    """Write a file so that readers see the old one or the new one. Raises OSError."""
    write_atomic(path, raw, durable=False, draft=f"{path}~")
