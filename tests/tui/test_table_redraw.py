"""Whatever happens, what stands on the screen is what the table would draw now: no line is forgotten."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gpudeck.engine.protocol.wire import TaskRow
from tests.fakes.change import Change, fold
from tests.inside.tui import DeckModel
from tests.tui.table_rig import TableApp, deck_of, row, running, table_app

MOVES = ("down", "up", "top", "bottom", "page_down", "page_up")
FILTERS = ("", "state:running", "-state:succeeded", "task-1", "state:failed,queued")
SORTS = ("file", "state", "name", "time", "eta", "metric")


def _another(dice: random.Random, index: int) -> TaskRow:
    state = dice.choice(("queued", "running", "running", "succeeded", "failed", "backoff"))
    if state == "running":
        return running(index, eta_s=dice.random() * 99, progress=dice.random(), metrics={"loss": dice.random()})
    more: dict[str, Any] = {"reason": dice.choice(("", "exit 1", "oom"))}
    if state == "backoff":
        more["retry_at"] = 1_800_000_050.0
    return row(index, state, attempt=1, duration_s=dice.random() * 99, held=dice.random() < 0.1, **more)


async def _act(dice: random.Random, app: TableApp, pilot: Pilot[None], deck: DeckModel) -> None:
    table = app.table
    match dice.randrange(12):
        case 0 | 1 | 2:
            rows = {index: _another(dice, index) for index in dice.sample(range(len(deck.rows)), 3)}
            table.show(deck, fold(deck, Change(rows=rows)))
        case 3 | 4:
            table.move(dice.choice(MOVES))
        case 5:
            table.set_filter(dice.choice(FILTERS))
        case 6:
            table.sort_by(dice.choice(SORTS))
        case 7:
            dice.choice((table.mark, table.mark_all, table.clear))()
        case 8:
            app.clocks.on(dice.random() * 3)
            table.show(deck, frozenset())
            table._tick()  # pyright: ignore[reportPrivateUsage]
        case 9:
            table.scroll_to(y=dice.randrange(200), animate=False)
        case 10:
            await pilot.resize_terminal(dice.choice((60, 80, 130)), dice.choice((8, 24, 40)))
        case _:
            rows = {index: msgspec.structs.replace(each) for index, each in deck.rows.items()}
            table.show(deck, fold(deck, Change(reset=True, whole=True, rows=rows)))


def _on_screen(app: TableApp) -> list[str]:
    region = app.table.region
    strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    return [
        strip.crop(region.x, region.x + app.table.scrollable_content_region.width).text
        for strip in strips[region.y : region.bottom]
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_no_line_on_the_screen_is_old(seed: int) -> None:
    dice = random.Random(seed)
    deck = deck_of(_another(dice, index) for index in range(150))

    async with table_app(deck) as (app, pilot):
        for _ in range(50):
            await _act(dice, app, pilot, deck)
            await pilot.pause()
            await pilot.pause()
            assert _on_screen(app) == [app.table.render_line(y).text for y in range(app.table.size.height)]
