"""Decks for the task table, and a small app around it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from textual.app import App, ComposeResult
from textual.pilot import Pilot

import gpudeck.tui
from gpudeck.engine.protocol.messages import Counts
from gpudeck.engine.protocol.wire import DeckHead, GpuRow, State, TaskRow
from gpudeck.tui.messages import OpenTask
from gpudeck.tui.model import DeckModel, Link
from gpudeck.tui.settings import THEMES
from gpudeck.tui.widgets.deck_header import DeckHeader
from gpudeck.tui.widgets.filter_bar import FilterBar
from gpudeck.tui.widgets.table.task_table import TaskTable
from tests.fakes.change import Change, fold

NOW_S = 1_800_000_000.0


def row(index: int, state: State = "queued", name: str = "", **more: Any) -> TaskRow:
    return TaskRow(index=index, name=name or f"task-{index}", entry=more.pop("entry", "train"), state=state, **more)


def running(index: int, name: str = "", **more: Any) -> TaskRow:
    values: dict[str, Any] = {"started": NOW_S - 65.0, "attempt": 1, "gpus": (0,), "needs_gpus": 1, **more}
    return row(index, "running", name, **values)


def deck_of(rows: Iterable[TaskRow], *, head: DeckHead | None = None, gpus: tuple[GpuRow, ...] = ()) -> DeckModel:
    """A whole picture."""
    deck = DeckModel()
    by_index = {each.index: each for each in rows}
    fold(deck, Change(reset=True, whole=True, rows=by_index, head=head, gpus=gpus, link=Link("live")))
    return deck


def head_of(**more: Any) -> DeckHead:
    values: dict[str, Any] = {
        "deck": "sweep", "file": "/x/tasks.toml", "log_dir": "/x/logs", "run": 3, "ended": False, "counts": Counts(),
        "slots": 8,
    }  # fmt: skip
    return DeckHead(**{**values, **more})


def change(deck: DeckModel, index: int, **more: Any) -> frozenset[int]:
    """One row becomes another; returns what `show` is to be told."""
    return fold(deck, Change(rows={index: msgspec.structs.replace(deck.rows[index], **more)})) or frozenset()


class Clocks:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = NOW_S, 100.0

    def on(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


class TableApp(App[None]):
    """The table with its header and its filter, and what they post."""

    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "table.tcss"

    def __init__(self, deck: DeckModel | None = None, columns: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.clocks = Clocks()
        self.opened: list[str] = []
        self._deck, self._columns = deck, columns

    def compose(self) -> ComposeResult:
        wall, steady = (lambda: self.clocks.wall_s), (lambda: self.clocks.steady_s)
        yield DeckHeader(now=wall)
        yield TaskTable(self._columns, now=wall, steady=steady, tick_s=1.0)
        yield FilterBar()

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.table.focus()
        if self._deck is not None:
            self.query_one(DeckHeader).show(self._deck)
            self.table.show(self._deck, None)

    @property
    def table(self) -> TaskTable:
        return self.query_one(TaskTable)

    @property
    def bar(self) -> FilterBar:
        return self.query_one(FilterBar)

    def on_open_task(self, message: OpenTask) -> None:
        self.opened.append(message.name)

    def on_filter_bar_typed(self, message: FilterBar.Typed) -> None:
        self.bar.say(self.table.set_filter(message.text))

    def on_filter_bar_closed(self) -> None:
        self.table.focus()


def lines(app: TableApp) -> list[str]:
    """The table as it is on the screen, header first."""
    table = app.table
    return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


def cursor_line(app: TableApp) -> str:
    """The line that shows the cursor; "" where none does."""
    return next((line for line in lines(app) if line.startswith("▌")), "")


@asynccontextmanager
async def table_app(
    deck: DeckModel | None = None, *, size: tuple[int, int] = (80, 24), columns: tuple[str, ...] = ()
) -> AsyncGenerator[tuple[TableApp, Pilot[None]]]:
    """The app on a terminal of that size."""
    app = TableApp(deck, columns)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot
