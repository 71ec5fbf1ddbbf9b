"""The dashboard over a picture: filter, sizes, help, and keys that mean nothing."""

from __future__ import annotations

from pathlib import Path

from textual.command import CommandList
from textual.widgets import Input

from tests.fakes.snapshot_deck import ROWS, head, row
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import LARGE, MIDDLE, SMALL, Size, SnapshotRig, at, snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, answer
from tests.inside.tui import ACTIONS, RESERVED, Action, DeckHeader, GpuPanes, LogView, TaskTable

TUI = Path(__file__).parents[2] / "tui"
MID_RUN = whole(ROWS, head(), EIGHT)
SIZES = (LARGE, (40, 10), SMALL, (20, 5), (151, 29), (1, 1), (30, 8), MIDDLE)
PLACES = {"filter": ("slash",), "log": ("l",), "search": ("l", "slash"), "pane": ("tab",), "page": ("d",)}


def table_of(rig: SnapshotRig) -> TaskTable:
    return rig.app.screen.query_one(TaskTable)


async def test_a_filter_shows_what_fits_while_it_is_typed_and_the_cursor_stays_on_its_task() -> None:
    async with snapshot_of(MID_RUN) as rig:
        table = table_of(rig)
        table.go_to("train-sym-0.625")
        await rig.types("slash", "state:running")
        assert len(table.shown) == 4
        await rig.press("backspace")
        await rig.types("g", ",failed")
        await rig.press("enter")
        assert (len(table.shown), table.cursor_name) == (6, "train-sym-0.625")
        await rig.press("escape")
        assert (len(table.shown), table.cursor_name) == (len(ROWS), "train-sym-0.625")


async def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    async with snapshot_of(whole((row(0, "[red]b[/] [red"),), head(()), ())) as rig:
        await rig.types("slash", "[/] [red")
        await rig.press("enter")
        await rig.until_seen("[/] [red", "[red]b[/]")


async def test_every_size_can_be_drawn_and_resizes_in_a_row_end_with_a_whole_picture() -> None:
    async with snapshot_of(MID_RUN, (20, 5)) as rig:
        for size in SIZES * 2:
            await rig.pilot.resize_terminal(*size)
            await rig.press("j", "k", "tab")
        await rig.until_seen("train-asym-0.125", "q leave")


async def test_a_timer_rings_also_where_its_time_was_over_before_it_began_to_run() -> None:
    async with snapshot_of(MID_RUN) as rig:
        rung: list[int] = []
        rig.app.set_timer(1e-9, lambda: rung.append(1))
        await rig.until(lambda: rung, "the timer rings")
        await rig.pilot.pause()
        assert rung == [1]


@at(SMALL, LARGE)
async def test_the_header_tells_that_the_deck_is_paused_on_a_fresh_screen(size: Size) -> None:
    rows = tuple(row(index, f"t-{index}") for index in range(70))

    async with snapshot_of(whole(rows, head(rows, paused="paused by ada")), size) as rig:
        await rig.until_seen("▎ paused")
        header, below = rig.app.screen.query_one(DeckHeader), rig.app.screen.query_one("#body")
        assert (header.region.height, below.region.y) == (3, 3)


async def test_keys_of_screen_tmux_and_the_terminal_mean_nothing_and_move_no_cursor_of_a_field() -> None:
    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED)}) as rig:
        for place, keys in {**PLACES, "palette": ("ctrl+p",), "help": ("question_mark",)}.items():
            before = rig.app.screen_stack[:]
            await rig.press(*keys)
            await rig.pilot.pause()
            bindings, field = rig.app.screen.active_bindings, rig.app.focused
            if place != "palette":  # the field itself takes them there
                assert not RESERVED & {*bindings, *(binding.key for _, binding, *_ in bindings.values())}, place
            if place in ("filter", "search", "palette"):
                assert isinstance(field, Input), place
                await rig.press("a", "b", *sorted(RESERVED), "c")
                assert field.value == "abc", place
            while rig.app.screen_stack != before or isinstance(rig.app.focused, Input):
                await rig.press("escape")


async def test_a_click_on_a_line_of_the_help_does_what_it_says() -> None:
    async with snapshot_of(MID_RUN) as rig:
        table_of(rig).go_to("train-sym-0.5")
        await rig.press("question_mark")
        await rig.until_seen("Mark the task")
        lines = rig.text().splitlines()
        y = next(at for at, line in enumerate(lines) if "Mark the task" in line)
        await rig.pilot.click(offset=(lines[y].index("Mark the task"), y))
        await rig.until(lambda: rig.app.screen.query(TaskTable) and table_of(rig).marked, "a task is marked")
        assert table_of(rig).marked == {"train-sym-0.5"}


def test_every_action_of_the_table_is_handled_somewhere() -> None:
    def named(action: Action) -> tuple[str, ...]:
        return (f"do_{action.id}", f'"{action.id}"', f"'{action.id}'")

    sources = "".join(path.read_text() for path in TUI.rglob("*.py") if path.name != "actions.py")
    assert [action.id for action in ACTIONS if not any(name in sources for name in named(action))] == []


@at(SMALL, LARGE)
async def test_z_shows_the_pane_that_has_the_keys_alone_and_all_of_them_again(size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        table, panes = table_of(rig), rig.app.screen.query_one(GpuPanes)
        before = table.size
        await rig.press("z")
        await rig.until(
            lambda: (table.size.width, panes.display and panes.region.area) == (size[0], 0), "the table alone"
        )
        assert table.size.width * table.size.height > before.width * before.height
        await rig.press("z")
        await rig.until(lambda: table.size == before, "all panes")
        await rig.press("tab", "z")
        await rig.until(lambda: (table.region.area, panes.size.width >= size[0] - 1) == (0, True), "the GPUs alone")
        await rig.press("tab")
        await rig.until(lambda: table.size == before, "all panes again")


@at(SMALL, LARGE)
async def test_a_pane_grows_shrinks_and_hides_and_comes_back_as_it_was(size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        table, panes, log = table_of(rig), rig.app.screen.query_one(GpuPanes), rig.app.screen.query_one(LogView)
        own = table.size
        await rig.press("greater_than_sign")
        await rig.until(lambda: table.size.area > own.area, "a larger table")
        await rig.press("less_than_sign")
        await rig.until(lambda: table.size == own, "the table as it was")
        await rig.press("tab", "Z")
        await rig.until(lambda: (panes.region.area, log.region.area > 0) == (0, True), "no GPUs")
        await rig.until(lambda: rig.app.focused is table, "the keys at the table")
        await rig.press("tab", "Z")
        await rig.until(lambda: log.region.area == 0 and table.size.width == size[0], "the table alone")
        await rig.press("Z")
        await rig.until(lambda: (table.size, panes.region.area > 0) == (own, True), "all panes")


@at(SMALL, LARGE)
async def test_a_pane_that_is_shrunk_without_end_keeps_a_line_and_grows_at_once(size: Size) -> None:
    async with snapshot_of(MID_RUN, size) as rig:
        panes = rig.app.screen.query_one(GpuPanes)
        await rig.press("tab", *["less_than_sign"] * 40)
        await rig.until(lambda: panes.region.height == 1, "one line")
        await rig.press("greater_than_sign")
        await rig.until(lambda: panes.region.height == 2, "two lines")


async def test_the_palette_finds_actions_by_the_words_of_other_tools() -> None:
    words = {"quit": "leave  (q)", "restart": "retry  (r)", "logs": "log  (l)", "theme": "theme gpudeck"}
    async with snapshot_of(MID_RUN) as rig:
        for word, action in (words | {"nord": "theme nord", "zoom": "zoom  (z)"}).items():
            await rig.press("ctrl+p")
            await rig.until_seen("apply  (a)")
            await rig.press(*word)
            await rig.until_seen(action)
            await rig.press("escape")


async def test_a_page_key_before_the_palettes_list_has_a_place_ends_nothing() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await rig.press("ctrl+p")
        await rig.until_seen("apply  (a)")
        commands = rig.app.screen.query_one(CommandList)
        commands.highlighted = 0
        commands.styles.height = 0  # as it is for a moment after a key has opened it
        await rig.until(lambda: not commands.scrollable_content_region, "a list without a place")
        await rig.press("pageup", "pagedown")
        commands.styles.height = "auto"
        await rig.until_seen("apply  (a)")


async def test_a_theme_of_the_palette_is_taken_at_once() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await rig.press("ctrl+p")
        await rig.until_seen("apply  (a)")
        await rig.press(*"theme")
        await rig.until_seen("theme atom-one-dark")
        await rig.press("enter")
        await rig.until(lambda: rig.app.theme != "gpudeck", "another theme")
