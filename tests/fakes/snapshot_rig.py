"""The whole screen over a deck that is made up: no engine, no clock that runs, nothing of the box it runs on."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from gpudeck.engine.errors import DeckError, EngineUnavailableError, UsageError
from gpudeck.engine.protocol.wire import READS, DeckHead, GpuRow, TaskRow
from gpudeck.tui.app import GpudeckApp
from gpudeck.tui.deck_app import Clocks
from gpudeck.tui.model import Link, News
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.detail import DetailView
from gpudeck.tui.settings import Config
from gpudeck.tui.widgets.gpu_panes import GpuPanes
from gpudeck.tui.widgets.host_line import Disk, HostLine, HostReading
from tests.fakes.change import Change
from tests.fakes.snapshot_picture import cells, picture

NOW_S = 1_800_000_000.0
"""Fri 15 Jan 2027, 08:00 UTC."""
STEADY_S = 5000.0
Size = tuple[int, int]
SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)
"""The small one breaks first; the large one has another layout."""


def at(*sizes: Size) -> pytest.MarkDecorator:
    """A picture at each of these sizes."""
    return pytest.mark.parametrize("size", [pytest.param(size, id=f"{size[0]}x{size[1]}") for size in sizes])


_STILL = 3
"""So often in a row the screen is as it was."""
_PATIENCE_S = 30.0
HOST = HostReading(
    cpu_percent=37, cores=64, load=24.3, memory_used=183 << 30, memory_total=503 << 30,
    disk=Disk(free=612 << 30, total=1788 << 30),
)  # fmt: skip
_KEYS = {" ": "space", ":": "colon", "=": "equals_sign", "-": "minus", "/": "slash", ".": "full_stop"}
LIVE = Link("live", pid=4711, version="0.1.0", host="gpu7")


class KnowingClient:
    """Brings what it is given, and answers at once. *answers*: by request, a result, what makes one of the request's
    arguments, or an error."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self._news: asyncio.Queue[News] = asyncio.Queue()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """What would change the deck."""

    def put(self, change: Change) -> None:
        for each in change.messages:
            self._news.put_nowait(each)

    @property
    def taken(self) -> bool:
        return self._news.empty()

    async def news(self) -> AsyncGenerator[News]:
        while True:
            yield await self._news.get()

    async def request(self, op: str, /, **args: Any) -> Any:
        if op not in READS:
            self.asked.append((op, args))
        found = self._answers.get(op)
        if found is None and op in READS:
            raise EngineUnavailableError("")
        if isinstance(found, DeckError):
            raise found
        answer = found(**args) if callable(found) else found
        if inspect.isawaitable(answer):
            answer = await answer
        if op == "show" and not answer:
            raise UsageError(f"no task {args['tasks'][0]!r} in this deck")
        return {} if answer is None else answer

    def silence(self) -> str:
        return ""

    def reconnect(self) -> None: ...


class SnapshotRig:
    """The app, what drives it, and its picture."""

    def __init__(self, app: GpudeckApp, pilot: Pilot[Any], client: KnowingClient) -> None:
        self.app, self.pilot, self.client = app, pilot, client

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{self.text()}"
            await self.pilot.pause(0.005)

    async def until_seen(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        for text in texts:
            await self.until(lambda text=text: text in self.text(), repr(text))

    async def until_told(self, text: str) -> None:
        """Wait for a toast; its lines may be folded."""
        toasts = self.app._notifications  # no public way to them
        await self.until(lambda: any(text in toast.message for toast in toasts), repr(text))

    async def until_said(self, *texts: str) -> None:
        """Wait until the page about a task tells all of these, seen or scrolled away."""
        lines = self.app.screen.query_one(DetailView)
        for text in texts:
            await self.until(lambda text=text: text in _said(lines), repr(text))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def asks(self, *keys: str) -> list[tuple[str, dict[str, Any]]]:
        """Press keys; returns what that asks of the engine."""
        before = len(self.client.asked)
        await self.press(*keys)
        await self.pilot.pause()
        return self.client.asked[before:]

    async def until_on(self, kind: type[Screen[Any]]) -> None:
        """Wait until a screen of that kind lies on top."""
        await self.until(lambda: isinstance(self.app.screen, kind) and self.app.screen.is_mounted, kind.__name__)

    async def types(self, first: str, text: str) -> None:
        """A key, then text."""
        await self.press(first, *(_KEYS.get(char, char) for char in text))

    async def brings(self, **changes: Any) -> None:
        """More from the engine, and wait until it is taken."""
        self.client.put(Change(**changes))
        await self.until(lambda: self.client.taken and self.app._drawing is None, "it has been drawn")

    def text(self) -> str:
        return "\n".join(strip.text for strip in cells(self.app))

    async def still(self) -> str:
        """The picture, once nothing moves any more."""
        await self.settle()
        return picture(self.app)

    async def settle(self) -> None:
        """Wait until nothing moves any more."""
        for field in self.app.screen.query(Input):
            field.cursor_blink = False
        before, same = cells(self.app), 0
        deadline = time.monotonic() + _PATIENCE_S
        while same < _STILL:
            assert time.monotonic() < deadline, f"it goes on changing:\n{self.text()}"
            await self.pilot.pause()
            await self.pilot.pause(0.02)
            now = cells(self.app)
            before, same = now, same + 1 if now == before else 0


def _said(view: DetailView) -> str:
    return "\n".join("".join(span.text for span in line) for line in view.lines)


def whole(
    rows: Sequence[TaskRow], head: DeckHead | None, gpus: tuple[GpuRow, ...] = (), link: Link = LIVE, **more: Any
) -> Change:
    """A picture of a deck that has come completely."""
    values: dict[str, Any] = {"total": len(rows), "whole": True, **more}
    return Change(reset=True, rows={row.index: row for row in rows}, head=head, gpus=gpus, link=link, **values)


@asynccontextmanager
async def snapshot_of(
    change: Change,
    size: Size = MIDDLE,
    *,
    answers: Mapping[str, Any] | None = None,
    config: Config | None = None,
    before: Callable[[GpuPanes], None] = lambda _: None,
) -> AsyncGenerator[SnapshotRig]:
    """The screen over what *change* tells. *before*: gives the GPUs their past."""
    client = KnowingClient(answers or {})
    clocks = Clocks(wall=lambda: NOW_S, steady=lambda: STEADY_S)
    app = GpudeckApp(client, config or Config(), clocks)
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        rig = SnapshotRig(app, pilot, client)
        await rig.until(lambda: isinstance(app.screen, Dashboard) and app.screen.query(GpuPanes), "the dashboard")
        before(app.screen.query_one(GpuPanes))
        app.screen.query_one(HostLine).show_reading(HOST)
        client.put(change)
        await rig.until(lambda: app.deck.link == change.link, "the deck has come")
        await rig.settle()
        yield rig


Steps = Callable[[SnapshotRig], Awaitable[object]]


def shown(change: Change, size: tuple[int, int], steps: Steps | None = None, **how: Any) -> str:
    """The screen over that deck, once *steps* have been gone. *how*: as `snapshot_of` takes it."""

    async def body() -> str:
        async with snapshot_of(change, size, **how) as rig:
            if steps is not None:
                await steps(rig)
            return await rig.still()

    return asyncio.run(body())
