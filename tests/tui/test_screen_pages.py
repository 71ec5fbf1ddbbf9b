"""From page to page, over a picture: what keys do there, what they do not, and that it is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpudeck.engine.protocol.pages import Failures
from gpudeck.tui.widgets.filter_bar import FilterBar
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_pages import FAILURES, PAGES, builtins
from tests.fakes.snapshot_rig import SnapshotRig, snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, NEVER, answer
from tests.inside.tui import (
    Choice,
    Dashboard,
    DeckScreen,
    Detail,
    ErrorsScreen,
    GraphScreen,
    LogScreen,
    PageScreen,
    TaskTable,
    TimelineScreen,
)

ANSWERS = {"show": answer(FAILED, NEVER), **PAGES}
MID_RUN = whole(ROWS, head(), EIGHT)


def targets(rig: SnapshotRig) -> tuple[str, ...]:
    assert isinstance(rig.app.screen, DeckScreen)
    return rig.app.screen.targets()


async def goes(rig: SnapshotRig, *ways: tuple[str, type[Any]]) -> None:
    """Press keys, each of which leads to a screen."""
    for key, kind in ways:
        await rig.press(key)
        await rig.until_on(kind)


async def test_the_key_that_opens_a_page_leaves_it_and_escape_does_too() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        for key, kind in (("d", Detail), ("l", LogScreen), ("e", ErrorsScreen), ("t", TimelineScreen)):
            await goes(rig, (key, kind), (key, Dashboard) if key != "e" else ("escape", Dashboard))
            await goes(rig, (key, kind), ("escape", Dashboard))
        await goes(rig, ("o", GraphScreen), ("o", Dashboard))


async def test_one_page_takes_the_place_of_another() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await goes(rig, ("t", TimelineScreen), ("o", GraphScreen), ("e", ErrorsScreen), ("escape", Dashboard))


async def test_d_leads_from_a_log_to_the_tasks_page_and_back_whichever_of_them_came_first() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await goes(rig, ("l", LogScreen), ("d", Detail), ("d", LogScreen), ("escape", Dashboard))
        await goes(rig, ("d", Detail), ("l", LogScreen), ("d", Detail))
        assert len(rig.app.screen_stack) == 3  # the empty one, the table, the page


async def test_a_key_that_does_nothing_on_a_page_says_so() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await goes(rig, ("d", Detail))
        await rig.press("slash")
        await rig.until_told("filter: not on this page; esc goes back")


async def test_a_key_of_another_pane_says_where_it_does_something() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await rig.press("D")
        await rig.until_told("drain: only on a GPU; tab goes to the next pane")


async def test_a_filter_that_means_nothing_stays_in_its_line_until_it_means_something() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await rig.types("slash", "state:")
        bar, table = rig.app.screen.query_one(FilterBar), rig.app.screen.query_one(TaskTable)
        await rig.press("enter")
        assert (bar.value, bar.is_open) == ("state:", True)
        await rig.until_seen("nothing after the colon")
        await rig.press(*"failed", "enter")
        assert (bar.value, bar.is_open) == ("state:failed", False)
        await rig.until(lambda: table.filter_text == "state:failed", "the filter")


async def test_word_of_an_earlier_filter_does_not_touch_what_has_been_typed_since() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await rig.types("slash", "state:")
        bar, table = rig.app.screen.query_one(FilterBar), rig.app.screen.query_one(TaskTable)
        table.post_message(TaskTable.Filtered("state"))
        await rig.settle()
        assert bar.value == "state:"


async def test_capital_r_on_the_errors_asks_what_to_retry() -> None:
    async with snapshot_of(MID_RUN, answers=ANSWERS) as rig:
        await goes(rig, ("e", ErrorsScreen))
        await rig.until_seen("9 tasks failed")
        await goes(rig, ("R", Choice))


async def test_r_on_the_errors_retries_the_group_and_a_second_one_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [FAILURES.failures[0], FAILURES.failures[3]]
    first, other = (failure.task for failure in told)

    def errors() -> Any:
        return builtins(Failures(total=len(told), failures=told))

    monkeypatch.setattr(PageScreen, "PERIOD_S", 0.05)
    async with snapshot_of(MID_RUN, answers={"errors": errors, "retry": {"tasks": [first]}}) as rig:
        await goes(rig, ("e", ErrorsScreen))
        await rig.until_seen("2 tasks failed")
        if targets(rig) != (first,):
            await rig.press("j")
        assert targets(rig) == (first,)
        assert await rig.asks("r") == [("retry", {"tasks": [first]})]
        told.pop(0)
        await rig.brings(rows={4: msgspec.structs.replace(ROWS[4], state="running")})
        await rig.until_seen("1 task failed")
        assert await rig.asks("r") == []
        await rig.until_told(f"{first} is running")
        assert targets(rig) == (first,) != (other,)
