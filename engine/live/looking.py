"""Notices edits of the task file: it is looked at whenever it may have changed, until it stays the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from ..errors import EngineEndingError
from .reading import content_digest
from .watch import FileWatch
from .worker import Worker

SETTLE_S = 0.5
"""Two reads this far apart must be equal: a file that is being written is left alone."""


class Looking:
    """At one file. On the loop's thread; what touches the file runs in threads of its own."""

    def __init__(
        self,
        path: str,
        worker: Worker,
        *,
        edited: Callable[[str], Awaitable[bool]],
        unreadable: Callable[[str, bool], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """*edited*: the file has settled on a content that was not `seen`, with this digest; False: it was read
        as another one, and is to be looked at again. *unreadable* (why, it was told before): it has none.
        *failed* is told of whatever *edited* raises."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._worker = worker
        self._edited = edited
        self._unreadable = unreadable
        self._failed = failed
        self.seen: str | None = None
        """Digest of the newest content that was looked at; None: none that counts."""
        self._missing = ""
        """Why the file cannot be read, as it was told."""
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._watch: FileWatch | None = None
        self._watching = False

    def start(self, seen: str, *, only_if_told: bool) -> None:
        """Begin to watch; what has been edited since the content was *seen* is found, too. Idempotent.

        *only_if_told*: edits do nothing but say that they are to do something from now on; on a network file system
        not even that is looked for.
        """
        if self._watch is None:
            self._watch = FileWatch(self._path, self._from_thread, polling=True if only_if_told else None)
        if self._watching or (only_if_told and self._watch.network):
            return
        self._watching = True
        self._watch.start()
        self.seen = seen
        if not only_if_told:
            self._touched()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._looking is not None:
            self._looking.cancel()

    def _from_thread(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is interested any more
            self._loop.call_soon_threadsafe(self._touched)

    def _touched(self) -> None:
        if self._looking is not None:
            self._look_again = True
            return
        self._looking = self._loop.create_task(self._look())

    async def _look(self) -> None:
        try:
            self._look_again = True
            while self._look_again:
                self._look_again = False
                await self._look_once()
        except EngineEndingError:
            return  # the next engine looks at the file
        except Exception as error:  # A task that nobody awaits would keep it to itself.
            self._failed(error)
        finally:
            self._looking = None

    async def _look_once(self) -> None:
        content, why = await self._settled()
        if why:
            known, self._missing, self.seen = why == self._missing, why, None
            self._unreadable(why, known)
            return
        self._missing = ""
        if content != self.seen:
            self.seen = content
            if not await self._edited(content):
                self.seen, self._look_again = None, True

    async def is_still(self, digest: str) -> bool:
        """Whether the file has this content now."""
        return await self._worker(self._content) == (digest, "")

    async def _settled(self) -> tuple[str, str]:
        """See `_content`, once the file stays the same."""
        before = await self._worker(self._content)
        while True:
            await asyncio.sleep(SETTLE_S)
            now = await self._worker(self._content)
            if now == before:
                return now
            before = now

    def _content(self) -> tuple[str, str]:
        """Digest of the file; or why there is none."""
        try:
            return content_digest(self._path), ""
        except FileNotFoundError:
            return "", "is gone"
        except OSError as error:
            return "", f"cannot be read ({error.strerror or error})"
