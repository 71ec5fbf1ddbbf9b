"""What the process of a tab writes to stderr, for the page that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import re

LINES = 8
_BYTES = 4096
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b.?"
    r"|[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


class LastWords:
    """Reads all of it, and keeps the end."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._kept = bytearray()
        self._reading = asyncio.create_task(self._read(stream))

    async def told(self, patience_s: float) -> str:
        """The last lines, as `words_of` shows them, once nothing more comes or *patience_s* are over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), patience_s)
        return words_of(bytes(self._kept))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_BYTES):
            self._kept += data
            del self._kept[:-_BYTES]


def words_of(said: bytes) -> str:
    """The last few lines, without anything that a terminal obeys."""
    lines = [line.rstrip() for line in _ESCAPES.sub("", said.decode("utf-8", "replace")).split("\n")]
    return "\n".join([line for line in lines if line][-LINES:])
