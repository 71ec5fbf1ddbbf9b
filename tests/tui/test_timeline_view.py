"""The timeline's widget: moves, zoom, what it posts, and that it draws no more than there is."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from gpudeck.engine.protocol.pages import AttemptRow
from tests.inside.tui import OpenTask, TimelineView, lanes_of
from tests.tui.pages_rig import HOSTILE, NOW_S, is_harmless, lines, page_app

SIZES = [(80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (1, 1)]


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


def ran(task: str, ago_s: float, for_s: float | None, *gpus: int, kind: str = "ok", attempt: int = 1) -> AttemptRow:
    start = NOW_S - ago_s
    end = None if for_s is None else start + for_s
    return AttemptRow(task=task, attempt=attempt, gpus=gpus, start=start, end=end, kind="" if end is None else kind)


ROWS = (
    ran("first", 3600, 600, 0), ran("second", 2900, 600, 0, kind="oom"), ran("third", 2000, None, 0),
    ran("other", 3600, 1800, 1), ran("report", 100, 50),
)  # fmt: skip


def view_of(*rows: AttemptRow, gpus: tuple[int, ...] = (0, 1, 2)) -> tuple[TimelineView, Any]:
    view = TimelineView(now=Clock())
    return view, lanes_of(rows, gpus)


def told(view: TimelineView) -> str:
    return lines(view)[-1]


async def test_before_it_is_told_what_ran_it_draws_no_axis_and_says_nothing() -> None:
    view, _ = view_of()
    async with page_app(view):
        assert not any(lines(view))


async def test_the_cursor_begins_on_what_started_last_and_tells_of_it() -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view):
        view.show(lanes)
        assert (view.task_name, "report" in told(view), "CPU" in told(view)) == ("report", True, True)


async def test_the_line_below_tells_of_the_attempt_that_the_cursor_goes_to() -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view):
        view.show(lanes)
        view.move_lane(-3)
        view.move_attempt(-1)
        assert ("second" in told(view), "oom" in told(view)) == (True, True)


async def test_what_is_seen_moves_with_the_clock() -> None:
    clock = Clock()
    view, lanes = TimelineView(now=clock), lanes_of(ROWS, (0,))
    async with page_app(view):
        view.show(lanes)
        view.follow()
        end = view.window.end
        clock.now_s += 60
        view.tick()
        assert view.window.end == pytest.approx(end + 60)


async def test_open_posts_the_task_under_the_cursor() -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view) as (app, pilot):
        view.show(lanes)
        view.open()
        await pilot.pause()
        assert app.told == [OpenTask("report")]


async def test_a_double_click_on_a_bar_opens_its_task() -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view) as (app, pilot):
        view.show(lanes)
        await pilot.pause()
        x = lines(view)[2].index("other")
        await pilot.click(TimelineView, offset=(x, 2), times=2)
        await pilot.pause()
        assert [message.name for message in app.told if isinstance(message, OpenTask)] == ["other"]


@pytest.mark.parametrize(("y", "lane"), [(0, "CPU"), (1, "GPU 0"), (4, "CPU"), (5, "CPU"), (22, "CPU")])
async def test_a_click_beside_the_lanes_moves_nothing(y: int, lane: str) -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view) as (_, pilot):
        view.show(lanes)
        await pilot.pause()
        await pilot.click(TimelineView, offset=(60, y))
        await pilot.pause()
        assert lane in told(view)


async def test_dragging_pans() -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view) as (_, pilot):
        view.show(lanes)
        start = view.window.start
        await pilot.mouse_down(TimelineView, offset=(20, 2))
        await pilot.hover(TimelineView, offset=(40, 2))
        await pilot.mouse_up(TimelineView, offset=(40, 2))
        assert view.window.start < start


async def test_more_lanes_than_lines_scroll_with_the_cursor() -> None:
    view, _ = view_of()
    async with page_app(view) as (_, pilot):
        view.show(lanes_of([ran(f"t{gpu}", 100, 50, gpu) for gpu in range(40)], range(40)))
        await pilot.pause()
        view.move_lane(-99)
        await pilot.pause()
        assert lines(view)[1].startswith("GPU 0")
        view.move_lane(99)
        await pilot.pause()
        assert lines(view)[-2].startswith("GPU 39 ▸")


@pytest.mark.parametrize(
    ("size", "theme"), list(zip(SIZES, cycle(("gpudeck", "gpudeck-light", "ansi-dark")), strict=False))
)
async def test_it_fits_any_terminal(size: tuple[int, int], theme: str) -> None:
    view, lanes = view_of(*ROWS)
    async with page_app(view, size=size, theme=theme) as (_, pilot):
        view.show(lanes)
        await pilot.pause()
        for y in range(view.size.height):
            assert view.render_line(y).cell_length == view.scrollable_content_region.width


async def test_names_from_outside_harm_nothing() -> None:
    rows = [ran(name, 1000, 900, gpu) for gpu, name in enumerate(HOSTILE)]
    view, lanes = view_of(*rows)
    async with page_app(view):
        view.show(lanes)
        for _ in HOSTILE:
            assert all(is_harmless(line) for line in lines(view))
            view.move_lane(-1)


async def test_a_deck_in_which_nothing_ran_says_so() -> None:
    view, _ = view_of()
    async with page_app(view) as (app, _):
        view.show([])
        assert told(view) == " nothing has run yet"
        for act in (view.open, view.follow, view.show_all):
            act()
        view.move_lane(1)
        view.move_attempt(1)
        view.zoom(1)
        assert app.told == []


async def test_a_large_deck_is_drawn_as_fast_as_a_small_one() -> None:
    """The cells of a line are looked up, not the attempts behind them."""

    class Counting(list[float]):
        looked = 0

        def __getitem__(self, at: Any) -> Any:
            Counting.looked += 1
            return super().__getitem__(at)

    view, lanes = view_of(*(ran(f"t{at}", 30_000 - at, 0.9, 0) for at in range(30_000)))
    async with page_app(view) as (_, pilot):
        view.show(lanes)
        await pilot.pause()
        for lane in lanes:
            lane.starts = Counting(lane.starts)
        Counting.looked = 0
        view.render_line(1)
        assert Counting.looked < 20 * view.size.width
