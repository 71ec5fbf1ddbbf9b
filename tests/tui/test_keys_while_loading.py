"""Keys that are typed before all tasks of a deck have come."""

from __future__ import annotations

from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.inside.tui import TaskTable


async def test_what_is_typed_while_the_deck_loads_is_taken_once_it_is_there() -> None:
    loading = whole(ROWS[:1], head(), EIGHT, whole=False, total=len(ROWS))
    async with snapshot_of(loading) as rig:
        await rig.press("j", "j")
        rig.client.put(whole(ROWS, head(), EIGHT))
        table = rig.app.screen.query_one(TaskTable)
        await rig.until(lambda: rig.app.deck.whole and table.cursor_name == table.shown[2], "the third task")
