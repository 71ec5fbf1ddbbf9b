"""One tab: a `gpudeck` of its own behind a websocket, attached to the same deck as all others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from asyncio.subprocess import Process

from textual_serve.app_service import AppService

from .environment import marked

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


PATIENCE_S = 5.0
"""A screen that does not leave within this time is killed; its engine is not touched."""
_SAID_S = 1.0
"""What a process has said is there soon after its end, unless something that it started holds its stderr open."""


class Tab(AppService):
    """As textual-serve has it, but it always ends, and the page learns of it: also what the process had to say."""

    _words: LastWords | None = None
    _left = False

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        mine = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        return marked(os.environ, {**super()._build_environment(width, height), **mine})

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        process = await super()._open_app_process(width, height)
        assert process.stderr is not None
        self._words = LastWords(process.stderr)
        process.stderr = asyncio.StreamReader()
        process.stderr.feed_eof()
        return process

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._leave()

    async def on_meta(self, data: bytes) -> None:
        """The screen's goodbye comes before the process says its last words and ends."""
        if json.loads(data)["type"] == "exit":
            await self._leave()
        else:
            await super().on_meta(data)

    async def _leave(self) -> None:
        """Once."""
        if self._left:
            return
        self._left = True
        said = "" if self._words is None else await self._words.told(_SAID_S)
        with contextlib.suppress(ConnectionError, RuntimeError):
            if said:
                await self.remote_write_str(json.dumps(["said", said]))
            await self.remote_close()

    async def stop(self) -> None:
        task, process = self._task, self._process
        if task is None or process is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(super().stop(), PATIENCE_S)
        self._task = None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        if process.returncode is None:
            process.kill()
            await process.wait()
