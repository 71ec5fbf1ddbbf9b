"""Writes attempt-N.json and the links to the newest logs off the start path."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ..atomic import write_atomic
from ..errors import error_in_words, may_pass
from ..logs.files import Link, make_link
from ..snapshot.git import GitStates
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

    def __init__(self, on_error: Callable[[str], None]) -> None:
        self.on_ended: Callable[[Sequence[str]], None] = lambda _: None
        """Told in the writer's thread which attempt-N.json have got their end."""
        self._on_error = on_error
        self._git = GitStates()
        self._host = socket.gethostname()
        self._begun: dict[str, Record] = {}
        """Headers by path."""
        self._spare: dict[str, Record] = {}
        """The same, for files that have none."""
        self._more: dict[str, Record] = {}
        """What was learned since: where a cluster runs it, and its end."""
        self._pending: dict[str, None] = {}
        """Paths in their order."""
        self._stuck: dict[str, None] = {}
        """Those whose ends met a full disk."""
        self._links: dict[str, Link] = {}
        self._files: dict[str, bytes] = {}
        """What stands beside them."""
        self._failing = self._hurry = self._closed = self._busy = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="attempt-json", daemon=True)
        self._thread.start()

    def begin(self, path: str, header: Record, links: Iterable[Link] = ()) -> None:
        """An attempt started: make its links and write its header to *path*, with the host, and what git says of its
        folder where that is not known. Idempotent."""
        self._put_header(self._begun, path, header, links)

    def adopt(self, path: str, header: Record, links: Iterable[Link] = ()) -> None:
        """An earlier engine started it: the same, but a header that is there stays."""
        self._put_header(self._spare, path, header, links)

    def _put_header(self, headers: dict[str, Record], path: str, header: Record, links: Iterable[Link]) -> None:
        with self._changed:
            headers[path] = header
            self._links.update({link.path: link for link in links})
            self._put(path)

    def placed(self, path: str, place: Record) -> None:
        """A cluster has taken it, or runs it: write that too."""
        self._learn(path, place)

    def end(self, path: str, end: Record) -> None:
        """It ended: write all of it. Without a `begin` in this process the header is read back from the file."""
        self._learn(path, {"end": end})

    def _learn(self, path: str, more: Record) -> None:
        with self._changed:
            self._more[path] = {**self._more.get(path, {}), **more}
            self._put(path)

    def keep(self, path: str, raw: bytes) -> None:
        """Write a file beside them, or replace it. One that cannot be written is not tried again."""
        with self._changed:
            self._files[path] = raw
            self._changed.notify_all()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Write what is pending now; False when that takes longer."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not (self._pending or self._files or self._busy), timeout_s)
            self._hurry = False
            return done

    def close(self, timeout_s: float = 5.0) -> bool:
        """Flush and end the thread. False: a file system that hangs holds it, and it is left to itself."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _put(self, path: str) -> None:
        if not self._pending:
            self._changed.notify_all()
        self._pending[path] = None

    def _run(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._pending or self._files or self._closed, _RETRY_S if self._stuck else None
                )
                if self._pending:
                    self._changed.wait_for(lambda: self._hurry or self._closed, _BATCH_S)
                jobs = {
                    path: (self._begun.get(path), self._more.get(path, {})) for path in {**self._stuck, **self._pending}
                }
                self._pending, self._stuck = {}, {}
                links, self._links = self._links, {}
                files, self._files = self._files, {}
                self._busy = True
            self._write_beside(links.values(), files)
            ended = [path for path, (header, more) in jobs.items() if self._write(path, header, more)]
            if ended:
                self.on_ended(ended)
            with self._changed:
                for path, (_, more) in jobs.items():
                    if "end" in more and path not in self._stuck:
                        for kept in (self._begun, self._spare, self._more):
                            kept.pop(path, None)
                self._busy = False
                self._changed.notify_all()
                closing = self._closed and not (self._pending or self._files)

    def _write_beside(self, links: Iterable[Link], files: Mapping[str, bytes]) -> None:
        """Where the folder is there: an attempt may have been stopped before anything of it was made."""
        for link in links:
            if os.path.isdir(os.path.dirname(link.path)):
                self._try(partial(make_link, link))
        for path, raw in files.items():
            if os.path.isdir(os.path.dirname(path)):
                self._try(partial(_replace, path, raw))

    def _write(self, path: str, header: Record | None, more: Record) -> bool:
        """Returns whether the file has got its end now."""
        error = self._try(lambda: self._write_record(path, header, more))
        if "end" in more and isinstance(error, OSError) and may_pass(error):
            self._stuck[path] = None
        return "end" in more and error is None

    def _try(self, write: Callable[[], None]) -> Exception | None:
        try:
            write()
        except OSError as error:
            self._report(error_in_words(error))
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

    def _write_record(self, path: str, header: Record | None, more: Record) -> None:
        record = {} if header is not None else read_record(path)
        if header is None and not record:
            if not os.path.isdir(os.path.dirname(path)):
                return  # stopped before anything of it was made
            header = self._spare.get(path)
        if header is not None:
            record = {**header, "host": self._host, "git": header["git"] or self._git.of(header["cwd"])}
        if "end" in more:
            more = {**more, "end": _told_again(more["end"], record.get("end"))}
        _replace(path, encode({**record, **more}))


def _told_again(end: Record, before: object) -> Record:
    """*end* of a record that may have it already: an engine that completes it anew knows nothing of what was used."""
    told = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
    if told.get("at") != end["at"]:
        return end
    return {key: told.get(key) if value is None else value for key, value in end.items()}


def _replace(path: str, raw: bytes) -> None:
    """Write a file so that readers see the old one or the new one. Raises OSError."""
    write_atomic(path, raw, durable=False, draft=f"{path}~")
