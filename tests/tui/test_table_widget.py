"""The task table on a screen: keys, mouse, what is drawn, what is posted."""

from __future__ import annotations

import pytest
from textual.geometry import Region
from textual.widgets import Input

from tests.fakes.change import Change, fold
from tests.inside.tui import JUMP_S, DeckModel, TaskTable
from tests.tui.table_rig import change, cursor_line, deck_of, lines, row, running, table_app

SIZES = [(80, 24), (120, 40), (200, 60)]


def queued(count: int) -> DeckModel:
    return deck_of(row(index) for index in range(count))


class Drawn:
    """The lines of a table that are drawn again."""

    def __init__(self, table: TaskTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ys: list[int] = []
        self.whole = 0
        refresh = table.refresh

        def noted(*regions: Region, **more: bool) -> TaskTable:
            self.ys += [region.y for region in regions]
            self.whole += not regions
            return refresh(*regions, **more)

        monkeypatch.setattr(table, "refresh", noted)


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_as_wide_as_the_table(size: tuple[int, int]) -> None:
    deck = deck_of(
        [running(0, "字" * 60, progress=0.4, metrics={"loss": 1.5}), row(1, "failed", "x" * 300, reason="y" * 500)]
    )

    async with table_app(deck, size=size) as (app, _):
        table = app.table
        widths = {table.render_line(y).cell_length for y in range(table.size.height)}
        assert widths == {table.scrollable_content_region.width}


async def test_moves_go_through_the_lines() -> None:
    async with table_app(queued(100)) as (app, _):
        names: list[str] = []
        for action in ("down", "down", "up", "bottom", "down", "top", "up", "page_down", "page_up"):
            app.table.move(action)
            names.append(app.table.cursor_name.removeprefix("task-"))
        page = app.table.size.height - 2
        assert names == ["1", "2", "1", "99", "99", "0", "0", str(page), "0"]


async def test_the_cursor_is_always_in_view() -> None:
    async with table_app(queued(500)) as (app, pilot):
        for action in ("bottom", "up", "page_up", "top", "page_down", "down"):
            app.table.move(action)
            await pilot.pause()
            assert app.table.cursor_name in cursor_line(app)


async def test_only_the_lines_that_differ_are_drawn_again() -> None:
    deck = deck_of([running(index, eta_s=5.0) for index in range(100)])
    async with table_app(deck) as (app, _):
        with pytest.MonkeyPatch.context() as monkeypatch:
            drawn = Drawn(app.table, monkeypatch)
            app.table.move("down")
            app.table.show(deck, change(deck, 3, eta_s=99.0))
            app.table.show(deck, change(deck, 90, eta_s=99.0))
            assert (drawn.ys, drawn.whole) == ([1, 2, 4], 0)


async def test_elapsed_times_go_on_without_news() -> None:
    async with table_app(deck_of([running(0)])) as (app, _):
        assert "1m05s" in lines(app)[1]
        app.clocks.on(10)
        assert "1m15s" in lines(app)[1]


async def test_nothing_is_resorted_while_the_user_moves() -> None:
    deck = deck_of([row(index, "failed") for index in range(3)])

    async with table_app(deck) as (app, _):
        table = app.table
        table.sort_by("state")
        app.clocks.on(5)
        table.move("down")
        app.clocks.on(0.5)
        table.show(deck, change(deck, 2, state="running"))
        assert table.shown[0] == "task-0"
        app.clocks.on(0.6)
        table.show(deck, frozenset())
        assert list(table.shown) == ["task-2", "task-0", "task-1"]


async def test_the_table_is_resorted_once_a_second_at_most() -> None:
    deck = deck_of([row(index, "failed") for index in range(3)])

    async with table_app(deck) as (app, _):
        app.table.sort_by("state")
        app.clocks.on(5)
        app.table.show(deck, change(deck, 2, state="running"))
        assert app.table.shown[0] == "task-2"
        app.clocks.on(0.5)
        app.table.show(deck, change(deck, 1, state="running"))
        assert list(app.table.shown) == ["task-2", "task-0", "task-1"]


async def test_a_resort_keeps_the_cursor_on_its_line_of_the_view() -> None:
    deck = queued(300)

    async with table_app(deck) as (app, pilot):
        table = app.table
        table.sort_by("state")
        table.move_to(150)
        await pilot.pause()
        y = next(y for y, line in enumerate(lines(app)) if line.startswith("▌"))
        app.clocks.on(5)
        table.show(deck, change(deck, 299, state="running"))
        await pilot.pause()
        assert lines(app)[y].startswith("▌")
        assert "task-150" in lines(app)[y]


async def test_who_looks_at_the_top_goes_on_looking_at_it() -> None:
    deck = deck_of([running(index) if index == 0 else row(index) for index in range(100)])

    async with table_app(deck) as (app, pilot):
        app.table.sort_by("state")
        app.clocks.on(5)
        app.table.show(deck, change(deck, 0, state="succeeded"))
        await pilot.pause()
        assert "task-1" in lines(app)[1]
        app.table.move("up")
        await pilot.pause()
        assert "task-99" in cursor_line(app)


async def test_the_cursor_goes_to_the_top_of_a_sort() -> None:
    async with table_app(queued(100)) as (app, pilot):
        app.table.reverse()
        assert app.table.cursor_name == "task-99"
        app.table.move("down")
        app.table.reverse()
        await pilot.pause()
        assert "task-0" in cursor_line(app)


async def test_s_goes_through_what_is_shown_and_back_to_the_file() -> None:
    deck = deck_of([running(0, eta_s=3.0, metrics={"loss": 1.0})])

    async with table_app(deck, size=(120, 30)) as (app, _):
        sorts = [app.table.next_sort() for _ in range(7)]
        assert sorts == ["state", "name", "time", "eta", "gpu", "metric", "file"]


async def test_marks_stay_by_name_through_filters_and_new_pictures() -> None:
    deck = queued(5)

    async with table_app(deck) as (app, _):
        app.table.mark()
        app.table.set_filter("task-3")
        app.table.mark_all()
        fold(deck, Change(reset=True, whole=True, rows={3: row(3)}))
        app.table.show(deck, None)
        assert app.table.marked == {"task-0", "task-3"}


async def test_marks_and_filter_are_told_above_the_lines() -> None:
    async with table_app(queued(5)) as (app, pilot):
        app.table.set_filter("task-1")
        with pytest.MonkeyPatch.context() as monkeypatch:
            drawn = Drawn(app.table, monkeypatch)
            app.table.mark()
            assert 0 in drawn.ys
        assert lines(app)[0].endswith("1 marked  /task-1  1 of 5")
        app.table.set_filter("task-2")
        await pilot.pause()
        assert lines(app)[0].endswith("0 marked, 1 not shown  /task-2  1 of 5")


async def test_what_the_filter_lets_in_is_counted_as_it_comes() -> None:
    deck = queued(5)

    async with table_app(deck) as (app, pilot):
        app.table.set_filter("state:failed")
        app.table.show(deck, change(deck, 2, state="failed"))
        await pilot.pause()
        assert lines(app)[0].endswith("1 of 5")
        assert "task-2" in cursor_line(app)


async def test_space_again_takes_the_mark_away() -> None:
    async with table_app(queued(5)) as (app, _):
        app.table.mark()
        app.table.move("up")
        app.table.mark()
        assert app.table.marked == frozenset()


async def test_clear_takes_the_marks_first_and_then_the_filter() -> None:
    async with table_app(queued(5)) as (app, _):
        app.table.set_filter("task")
        app.table.mark()
        app.table.clear()
        assert (len(app.table.marked), app.table.filter_text) == (0, "task")
        app.table.clear()
        assert app.table.filter_text == ""


async def test_a_filter_that_means_nothing_leaves_the_old_one() -> None:
    async with table_app(queued(5)) as (app, _):
        assert app.table.set_filter("task-3") == ""
        assert "did you mean" in app.table.set_filter("state:faild")
        assert (app.table.filter_text, list(app.table.shown)) == ("task-3", ["task-3"])


async def test_an_empty_table_says_which_filter_emptied_it() -> None:
    async with table_app(queued(5)) as (app, _):
        app.table.set_filter('"no such"')
        assert 'no task matches ""no such"": esc clears' in lines(app)[2]
        assert app.table.cursor_name == ""
        app.table.set_filter("sate:failed")
        assert 'no task matches "sate:failed"; did you mean state:failed? esc clears' in lines(app)[2]


async def test_a_deck_without_tasks_says_so() -> None:
    async with table_app(deck_of(())) as (app, pilot):
        assert "the deck has no tasks" in lines(app)[2]
        for action in ("down", "bottom", "page_up"):
            app.table.move(action)
        app.table.mark()
        await pilot.press("enter")
        assert app.opened == []


async def test_enter_opens_the_task_under_the_cursor() -> None:
    async with table_app(queued(5)) as (app, pilot):
        app.table.move("down")
        await pilot.press("enter")
        assert app.opened == ["task-1"]


async def test_a_click_moves_the_cursor_and_a_double_click_opens() -> None:
    async with table_app(queued(5)) as (app, pilot):
        await pilot.click(TaskTable, offset=(10, 3))
        assert (app.table.cursor_name, app.opened) == ("task-2", [])
        await pilot.click(TaskTable, offset=(10, 4), times=2)
        assert (app.table.cursor_name, app.opened) == ("task-3", ["task-3"])


async def test_clicks_with_control_at_the_gutter_and_with_shift_mark() -> None:
    async with table_app(queued(9)) as (app, pilot):
        await pilot.click(TaskTable, offset=(10, 2), control=True)
        await pilot.click(TaskTable, offset=(0, 4))
        await pilot.click(TaskTable, offset=(10, 6), shift=True)
        assert sorted(app.table.marked) == ["task-1", "task-3", "task-4", "task-5"]


async def test_a_click_below_the_last_task_does_nothing() -> None:
    async with table_app(queued(3)) as (app, pilot):
        await pilot.click(TaskTable, offset=(10, 9), times=2)
        assert (app.table.cursor_name, app.opened) == ("task-0", [])


async def test_a_click_on_a_title_sorts_and_a_second_one_reverses() -> None:
    async with table_app(queued(5)) as (app, pilot):
        x = lines(app)[0].index("task")
        await pilot.click(TaskTable, offset=(x, 0))
        assert app.table.sorted_by == ("name", False)
        await pilot.click(TaskTable, offset=(x, 0))
        assert app.table.sorted_by == ("name", True)


async def test_the_wheel_scrolls_and_leaves_the_cursor() -> None:
    async with table_app(queued(100)) as (app, pilot):
        app.table.scroll_to(y=50, animate=False)
        await pilot.pause()
        assert app.table.cursor_name == "task-0"
        assert "task-50" in lines(app)[1]
        app.table.move("down")
        await pilot.pause()
        assert "task-1" in cursor_line(app)


async def test_news_leave_a_view_that_was_scrolled_away_from_the_cursor() -> None:
    deck = queued(100)

    async with table_app(deck) as (app, pilot):
        app.table.scroll_to(y=50, animate=False)
        await pilot.pause()
        app.table.show(deck, change(deck, 0, state="failed"))
        await pilot.pause()
        assert "task-50" in lines(app)[1]


async def test_a_table_without_focus_shows_its_cursor_otherwise() -> None:
    async with table_app(queued(3)) as (app, pilot):
        focused = app.table.render_line(1)
        with pytest.MonkeyPatch.context() as monkeypatch:
            drawn = Drawn(app.table, monkeypatch)
            app.bar.open()
            await pilot.pause()
            assert drawn.whole or 1 in drawn.ys
        assert app.table.render_line(1) != focused


async def test_the_scroll_position_survives_a_new_picture() -> None:
    deck = queued(300)

    async with table_app(deck) as (app, pilot):
        app.table.move_to(200)
        app.table.move("up")
        await pilot.pause()
        before = lines(app)
        app.table.show(deck, fold(deck, Change(reset=True, whole=False, rows={})))
        await pilot.pause()
        app.table.show(deck, fold(deck, Change(whole=True, rows={index: row(index) for index in range(300)})))
        await pilot.pause()
        assert lines(app) == before


async def test_chosen_columns_are_shown() -> None:
    deck = deck_of([row(0, tags=("large",), params={"lr": "0.1"})])

    async with table_app(deck, columns=("name", "tags", "params")) as (app, _):
        assert "large" in lines(app)[1]
        assert "lr=0.1" in lines(app)[1]


async def test_the_table_is_copied_as_lines_with_tabs() -> None:
    async with table_app(queued(2)) as (app, _):
        header, first, *_ = app.table.as_text().split("\n")
        assert header.split("\t")[:2] == ["state", "task"]
        assert first.split("\t")[:2] == ["queued", "task-0"]


async def test_opening_the_filter_bar_again_shows_the_text_that_holds() -> None:
    async with table_app(queued(5)) as (app, _):
        app.bar.open("state:failed")
        assert app.query_one(Input).cursor_position == len("state:failed")
        assert app.table.filter_text == ""


async def test_an_ansi_theme_shows_the_cursor_reversed() -> None:
    async with table_app(queued(3)) as (app, pilot):
        app.theme = "ansi-dark"
        await pilot.pause()
        strip = app.table.render_line(1)
        assert all(segment.style is not None and segment.style.reverse for segment in strip)


async def test_a_sort_whose_column_has_no_title_is_told_at_the_end_of_the_titles() -> None:
    async with table_app(queued(3)) as (app, _):
        app.table.sort_by("state")
        title = lines(app)[0]
        assert "▲" not in title.partition("task")[0]
        assert title.endswith("▲ state")
        app.table.sort_by("name")
        assert lines(app)[0].split()[:2] == ["task", "▲"]
        app.table.sort_by("file", descending=True)
        assert lines(app)[0].endswith("▼ file")
        app.table.sort_by("file")
        assert not {"▲", "▼"} & set(lines(app)[0])


async def test_a_wide_table_sorted_by_the_state_says_so_above_it() -> None:
    async with table_app(queued(3), size=(120, 40)) as (app, _):
        app.table.sort_by("state")
        assert lines(app)[0].split()[:2] == ["state", "▲"]


async def test_a_filter_that_is_half_typed_does_not_move_the_cursor_from_its_task() -> None:
    deck = deck_of([row(0, "succeeded"), row(1, "failed"), row(2, "succeeded"), row(3, "failed")])

    async with table_app(deck) as (app, _):
        app.table.move_to(3)
        app.table.begin_filter()
        names: list[str] = []
        for text in ("state:succeeded", "state:succeeded,failed", "nothing", "state:failed"):
            app.table.set_filter(text)
            names.append(app.table.cursor_name)
        assert names == ["task-2", "task-3", "", "task-3"]


async def test_a_cursor_that_is_moved_while_a_filter_is_typed_stays_where_it_was_moved_to() -> None:
    async with table_app(queued(5)) as (app, _):
        app.table.move_to(3)
        app.table.begin_filter()
        app.table.move_to(1)
        app.table.set_filter("task")
        assert app.table.cursor_name == "task-1"


async def test_a_cursor_whose_task_went_out_of_the_filter_has_jumped_for_a_moment() -> None:
    deck = deck_of([row(0, "failed"), row(1, "failed"), row(2)])

    async with table_app(deck) as (app, _):
        app.table.set_filter("state:failed")
        assert not app.table.has_jumped
        app.table.show(deck, change(deck, 0, state="running"))
        assert (app.table.cursor_name, app.table.has_jumped) == ("task-1", True)
        app.clocks.on(JUMP_S)
        assert not app.table.has_jumped


async def test_a_cursor_that_the_user_moves_or_that_goes_with_its_task_has_not_jumped() -> None:
    deck = deck_of([row(0, "failed"), row(1, "failed"), row(2)])

    async with table_app(deck) as (app, _):
        app.table.sort_by("state")
        app.table.show(deck, change(deck, 0, state="succeeded"))
        assert not app.table.has_jumped
        app.table.set_filter("state:failed")
        app.table.show(deck, change(deck, 1, state="running"))
        app.table.set_filter("")
        app.table.move("down")
        assert not app.table.has_jumped
