"""The screen's task table against Textual's DataTable: to load it, change one row, move the cursor, sort again.

Both stand alone in an app without a terminal, 120 x 40; times are CPU and waiting until the screen has nothing left to
draw. DataTable has the same columns, as text.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
from common import Report, options, percentile
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import DataTable

import gpudeck.tui
from gpudeck.engine.protocol.counts import Counts
from gpudeck.engine.protocol.wire import DeckHead, Delta, Ready, Snapshot, State, TaskRow, Tasks
from gpudeck.tui.drawing.view import plain_text
from gpudeck.tui.model import DeckModel, Link
from gpudeck.tui.widgets.table.task_table import TaskTable

SIZE = (120, 40)
_HEAD = DeckHead(deck="", file="", log_dir="", run=1, ended=False, counts=Counts(), slots=8)
COLUMNS = ("state", "name", "progress", "time", "eta", "gpu", "attempt", "metric", "reason")
NOW_S = time.time()


def rows_of(count: int) -> dict[int, TaskRow]:
    dice = random.Random(1)
    states: tuple[State, ...] = ("succeeded", "failed", "queued", "waiting", "running")
    found: dict[int, TaskRow] = {}
    for index in range(count):
        state = dice.choice(states)
        begun = state in ("succeeded", "failed", "running")
        found[index] = TaskRow(
            index=index,
            name=f"train-{index % 7}-lr-{dice.random():.4f}-seed-{index}",
            entry="train",
            state=state,
            needs_gpus=1,
            attempt=int(begun),
            gpus=(index % 8,) if begun else (),
            started=NOW_S - 60 if state == "running" else None,
            duration_s=dice.random() * 9000 if begun and state != "running" else None,
            progress=dice.random() if state == "running" else None,
            metrics={"loss": dice.random()} if begun else {},
            reason="exit 1: ValueError: bad rate" if state == "failed" else "",
        )
    return found


class TableApp(App[None]):
    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "table.tcss"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.widget.focus()


class Ours:
    """The four things that are measured, on our table."""

    def __init__(self, rows: dict[int, TaskRow]) -> None:
        self.rows = rows
        self.widget = TaskTable((), now=time.time, steady=time.monotonic, tick_s=1.0)
        self.deck = DeckModel()
        self.column = "metric"

    def load(self) -> None:
        self.deck.link = Link("live")
        for message in (
            Snapshot(rev=1, total=len(self.rows), head=_HEAD, gpus=()),
            Tasks([*self.rows.values()]),
            Ready(1),
        ):
            self.deck.fold(message)
        self.widget.show(self.deck, None)

    def change(self, index: int, value: float) -> None:
        row = msgspec.structs.replace(self.deck.rows[index], metrics={"loss": value})
        self.widget.show(self.deck, self.deck.fold(Delta(rev=2, rows=[row])))

    def down(self) -> None:
        self.widget.move("down")

    def resort(self) -> None:
        self.widget.sort_by("metric")


class Peer:
    """The same on a DataTable."""

    def __init__(self, rows: dict[int, TaskRow]) -> None:
        self.rows = rows
        self.widget: DataTable[str] = DataTable(cursor_type="row")
        self.greatest_first = False

    def load(self) -> None:
        for column in COLUMNS:
            self.widget.add_column(column, key=column)
        for index, row in self.rows.items():
            self.widget.add_row(*(plain_text(column, row, NOW_S) for column in COLUMNS), key=str(index))

    def change(self, index: int, value: float) -> None:
        self.widget.update_cell(str(index), "metric", f"loss={value:.4g}")

    def down(self) -> None:
        self.widget.action_cursor_down()

    def resort(self) -> None:
        self.greatest_first = not self.greatest_first
        self.widget.sort("metric", key=cast("Callable[[Any], Any]", str), reverse=self.greatest_first)


async def taken_ms(pilot: Pilot[None], do: Callable[[], None]) -> float:
    """Until it is drawn."""
    app = pilot.app
    began = time.perf_counter()
    do()
    drawn = asyncio.Event()
    app.call_later(lambda: app.screen.call_after_refresh(drawn.set))
    await drawn.wait()
    return (time.perf_counter() - began) * 1e3


async def with_app(side: Ours | Peer, body: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    async with TableApp(side.widget).run_test(size=SIZE) as pilot:
        await pilot.pause()
        await body(pilot)


def measured(side: Ours | Peer, times: int) -> dict[str, float]:
    """Milliseconds: load once, the rest the median of *times*."""
    found: dict[str, float] = {}

    async def body(pilot: Pilot[None]) -> None:
        found["load"] = await taken_ms(pilot, side.load)
        await pilot.pause()
        dice = random.Random(2)
        for case, do in (
            ("one row changes", lambda: side.change(dice.randrange(20), dice.random())),
            ("cursor down", side.down),
            ("sort by a metric", side.resort),
        ):
            spans: list[float] = []
            for _ in range(times if case != "sort by a metric" else min(times, 5)):
                spans.append(await taken_ms(pilot, do))
            found[case] = percentile(spans, 50)

    asyncio.run(with_app(side, body))
    return found


def keys_under_load(count: int, seconds: float) -> tuple[list[float], float]:
    """Milliseconds of each key while 20 rows a second change, two by two; and the share of a core that it took."""
    side = Ours(rows_of(count))
    spans: list[float] = []
    share = [0.0]

    async def body(pilot: Pilot[None]) -> None:
        side.load()
        await pilot.pause()
        dice = random.Random(3)
        began, cpu = time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - began) < seconds:
            for _ in range(2):
                side.change(dice.randrange(count), dice.random())
            spans.append(await taken_ms(pilot, side.down))
            await asyncio.sleep(max(0.0, 0.1 - (time.perf_counter() - began - passed)))
        share[0] = (time.process_time() - cpu) / (time.perf_counter() - began)

    asyncio.run(with_app(side, body))
    return spans, share[0]


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    count = 1000 if given.quick else 10_000
    times = 5 if given.quick else 30
    ours = [measured(Ours(rows_of(count)), times) for _ in range(given.rounds(3))]
    peer = [measured(Peer(rows_of(count)), times) for _ in range(given.rounds(3))]
    for case in ours[0]:
        budget = "<= 80 ms" if case == "load" else ""
        report.row(
            f"{case}, {count:,} rows", [each[case] for each in ours], [each[case] for each in peer], "ms", budget
        )
    huge = measured(Ours(rows_of(10 * count)), times)
    for case, span in huge.items():
        report.row(
            f"{case}, {10 * count:,} rows",
            span,
            None,
            "ms",
            "<= 1000 ms" if case == "load" else "<= 50 ms" if case == "cursor down" else "",
        )
    keys, share = keys_under_load(count, 2 if given.quick else 10)
    report.row("key p95, 20 changes/s", percentile(keys, 95), None, "ms", "<= 50 ms")
    report.row("CPU, 10 keys/s, 20 changes/s", 100 * share, None, "%", "<= 15 %")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
