"""Keys that are typed before all tasks of a deck have come."""

from __future__ import annotations

import pytest

from tests.fakes.change import Change
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.inside.tui import Config, Link, TaskTable

CONNECTING = whole((), None, (), Link("connecting"), whole=False)
LOADING = whole(ROWS[:1], head(), EIGHT, whole=False, total=len(ROWS))


@pytest.mark.parametrize("before", [CONNECTING, LOADING], ids=["connecting", "loading"])
async def test_what_is_typed_before_the_deck_has_come_is_taken_once_it_is_there(before: Change) -> None:
    async with snapshot_of(before) as rig:
        await rig.press("j", "j")
        rig.client.put(whole(ROWS, head(), EIGHT))
        table = rig.app.screen.query_one(TaskTable)
        await rig.until(lambda: rig.app.deck.whole and table.cursor_name == table.shown[2], "the third task")


async def test_a_deck_that_has_come_is_drawn_before_a_key_moves_through_it() -> None:
    async with snapshot_of(LOADING, config=Config(refresh_s=60.0)) as rig:
        rig.client.put(whole(ROWS, head(), EIGHT))
        await rig.until(lambda: rig.app.deck.whole, "all tasks")
        assert len(rig.app.screen.query_one(TaskTable).shown) == len(ROWS)


async def test_q_leaves_before_an_engine_has_answered() -> None:
    async with snapshot_of(CONNECTING) as rig:
        await rig.press("q")
        await rig.until(lambda: not rig.app.is_running, "the end of the screen")
