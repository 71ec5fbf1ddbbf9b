"""A log view in an app of its own, and waiting for what its threads bring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip

from gpudeck import tui
from gpudeck.tui.logs.source import LogSource
from gpudeck.tui.widgets.log.stream import LogStream
from gpudeck.tui.widgets.log.view import LogView

STYLES = Path(tui.__file__).parent / "styles"
_PATIENCE_S = 20.0


class LogApp(App[None]):
    CSS_PATH = STYLES / "log_view.tcss"

    def __init__(self, *, compact: bool = False) -> None:
        super().__init__()
        self._compact = compact
        self.wanted: list[Message] = []
        self.escaped = 0

    BINDINGS: ClassVar = [("escape", "escaped", "")]

    def compose(self) -> ComposeResult:
        yield LogView(compact=self._compact)

    def action_escaped(self) -> None:
        self.escaped += 1

    @on(LogView.AttemptWanted)
    @on(LogView.PagerWanted)
    def want(self, message: Message) -> None:
        self.wanted.append(message)


class Rig:
    """What a test sees and does."""

    def __init__(self, app: LogApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def view(self) -> LogView:
        return self.app.query(LogView).first()

    @property
    def streams(self) -> list[LogStream]:
        return [stream for stream in self.view.query(LogStream) if stream.display]

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the app work until this is so."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, f"never came; there is:\n{self.screen}"
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def sees(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.screen for text in texts))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def search(self, text: str) -> None:
        await self.press("slash")
        for character in text:
            await self.press("space" if character == " " else character)
        await self.press("enter")

    async def show(self, source: LogSource | None) -> None:
        self.view.show(source)
        self.view.focus()
        await self.until(lambda: source is None or all(stream.started for stream in self.streams))

    @property
    def lines(self) -> list[str]:
        """The screen as it is drawn."""
        return [strip.text for strip in self._strips]

    def colours(self, line: int) -> list[tuple[object, object]]:
        """Ink and paper of each piece of text in a line of the screen."""
        pieces = [(piece.text, piece.style) for piece in self._strips[line]]
        return [(style and style.color, style and style.bgcolor) for text, style in pieces if text.strip()]

    @property
    def _strips(self) -> list[Strip]:
        width, height = self.app.size
        drawn = self.app.screen._compositor.render_strips(self.app.size)
        return [strip.crop(0, width) for strip in drawn[:height]]

    @property
    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    @property
    def status(self) -> str:
        return self.lines[-1].strip()


@asynccontextmanager
async def log_app(size: tuple[int, int] = (80, 24), **how: Any) -> AsyncGenerator[Rig]:
    app = LogApp(**how)
    async with app.run_test(size=size) as pilot:
        yield Rig(app, pilot)


def source(folder: Path, out: bytes | None = b"", err: bytes | None = None, **more: Any) -> LogSource:
    """An attempt with these logs; None: a file that is not there."""
    folder.mkdir(exist_ok=True)
    paths: list[tuple[str, str]] = []
    for label, name, content in (("stdout", "attempt-1.log", out), ("stderr", "attempt-1.err", err)):
        if content is not None:
            (folder / name).write_bytes(content)
        if label == "stdout" or err is not None:
            paths.append((label, str(folder / name)))
    values: dict[str, Any] = {"task": "t", "attempt": 1, "attempts": (1,), "running": False, "paths": tuple(paths)}
    return LogSource(**{**values, **more})


def numbered(count: int, word: str = "line") -> bytes:
    return "".join(f"{word} {number}\n" for number in range(count)).encode()
