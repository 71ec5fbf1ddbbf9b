"""The graph's widget: moves between boxes, what it posts, and that hostile names harm nothing."""

from __future__ import annotations

from itertools import cycle

import pytest

from gpudeck.engine.protocol.pages import Graph, GraphBarrier, GraphBox, GraphEdge
from tests.inside.tui import FilterTable, GraphView
from tests.tui.pages_rig import HOSTILE, is_harmless, lines, page_app

SIZES = [(80, 24), (120, 40), (200, 60), (30, 8), (1, 1)]


def graph(*, running: int = 2) -> Graph:
    boxes = [
        GraphBox(entry=entry, round=number, total=running + 3, counts={"running": running, "queued": 3})
        for entry, number in (("data", 0), ("pretrain", 0), ("train", 1), ("eval", 1), ("report", 2), ("paper", 3))
    ]
    return Graph(
        boxes=boxes,
        edges=[GraphEdge(before=0, behind=3, kind="needs"), GraphEdge(before=2, behind=3, kind="after")],
        barriers=[GraphBarrier(round=1, state="waits", why="waits for round 0: data")],
    )


def chosen(view: GraphView) -> str:
    """What the last line names."""
    return lines(view)[-1].split("·")[0].strip()


async def test_the_cursor_moves_over_boxes_and_the_last_line_tells_of_them() -> None:
    view = GraphView()
    async with page_app(view, size=(120, 40)) as (_, pilot):
        view.show(graph())
        await pilot.pause()
        assert chosen(view) == "data"
        view.move(0, 1)
        assert chosen(view) == "pretrain"
        view.move(1, 0)
        assert chosen(view) == "train"
        assert "waits for round 0: data" in lines(view)[-1]
        view.move(-1, 0)
        view.move(-1, 0)
        assert chosen(view) in ("data", "pretrain")


async def test_a_box_out_of_view_is_scrolled_to() -> None:
    view = GraphView()
    async with page_app(view, size=(60, 12)) as (_, pilot):
        view.show(graph())
        await pilot.pause()
        for _ in range(5):
            view.move(1, 0)
        await pilot.pause()
        assert chosen(view) == "paper"
        assert any("paper" in line for line in lines(view)[:-1])


async def test_the_lowest_box_is_seen_whole_above_the_last_line() -> None:
    view = GraphView()
    async with page_app(view, size=(40, 12)) as (_, pilot):
        view.show(Graph(boxes=[GraphBox(entry=f"e{place}", total=1) for place in range(6)], edges=[], barriers=[]))
        await pilot.pause()
        for _ in range(5):
            view.move(0, 1)
        await pilot.pause()
        assert [line[0] for line in lines(view)[-5:-1]] == ["┏", "┃", "┃", "┗"]


async def test_the_cursor_stays_on_its_box_when_the_file_has_changed() -> None:
    view = GraphView()
    async with page_app(view):
        view.show(graph())
        view.move(0, 1)
        found = graph()
        found.boxes.insert(0, GraphBox(entry="new", total=1, counts={"queued": 1}))
        view.show(Graph(boxes=found.boxes, edges=[], barriers=[]))
        assert chosen(view) == "pretrain"


async def test_counts_are_those_of_the_newest_answer() -> None:
    view = GraphView()
    async with page_app(view) as (_, pilot):
        view.show(graph())
        await pilot.pause()
        view.show(graph(running=77))
        assert any("● 77" in line for line in lines(view))


async def test_open_filters_the_table_to_the_entry() -> None:
    view = GraphView()
    async with page_app(view) as (app, pilot):
        view.show(graph())
        view.open()
        await pilot.pause()
        assert app.told == [FilterTable("entry:data round:0")]


async def test_a_double_click_filters_too() -> None:
    view = GraphView()
    async with page_app(view) as (app, pilot):
        view.show(graph())
        await pilot.pause()
        await pilot.click(GraphView, offset=(5, 5), times=2)
        await pilot.pause()
        assert app.told == [FilterTable("entry:pretrain round:0")]


@pytest.mark.parametrize(("size", "theme"), list(zip(SIZES, cycle(("gpudeck", "ansi-dark")), strict=False)))
async def test_it_fits_any_terminal(size: tuple[int, int], theme: str) -> None:
    view = GraphView()
    async with page_app(view, size=size, theme=theme) as (_, pilot):
        view.show(graph())
        await pilot.pause()
        width, height = view.scrollable_content_region.size
        assert all(view.render_line(y).cell_length == width for y in range(height))


async def test_names_from_outside_harm_nothing() -> None:
    view = GraphView()
    async with page_app(view, size=(120, 50)) as (_, pilot):
        view.show(Graph(boxes=[GraphBox(entry=name, group=name, total=1) for name in HOSTILE], edges=[], barriers=[]))
        await pilot.pause()
        for _ in HOSTILE:
            assert all(is_harmless(line) for line in lines(view))
            view.move(0, 1)


async def test_an_empty_deck_has_nothing_to_go_to() -> None:
    view = GraphView()
    async with page_app(view) as (app, _):
        view.show(Graph(boxes=[], edges=[], barriers=[]))
        view.move(1, 0)
        view.move(0, 1)
        view.open()
        assert app.told == []
        assert lines(view)[-1].strip() == "no tasks"
