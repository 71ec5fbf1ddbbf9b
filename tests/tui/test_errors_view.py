"""Failures that are alike are together; the group under the cursor shows the end of its newest log."""

from __future__ import annotations

from itertools import cycle

import pytest

from gpudeck.engine.protocol.pages import Failure
from gpudeck.engine.protocol.wire import TaskRow
from tests.inside.tui import Acted, ErrorList, FilterTable, OpenLogs, OpenTask, groups_of, summary
from tests.inside.tui import errors_filter_for as filter_for
from tests.inside.tui import errors_lines_of as lines_of
from tests.inside.tui import filtering_parse as parse
from tests.tui.pages_rig import HOSTILE, NOW_S, is_harmless, lines, page_app

SIZES = [(80, 24), (120, 40), (200, 60), (30, 8), (1, 1)]


def failure(
    task: str, reason: str = "exit 1: ValueError: bad rate", kind: str = "exit", ago_s: float = 60.0, **more: int
):
    return Failure(task=task, attempt=more.get("attempt", 1), kind=kind, reason=reason, gpus=(0,), ended=NOW_S - ago_s)


def oom(number: int) -> Failure:
    reason = f"out of memory (CUDA): tried to allocate {number}.00 GiB at 0x7f{number}a"
    return failure(f"train-{number}", reason, "oom", ago_s=100.0 * number, attempt=2)


MANY = [oom(1), oom(2), oom(3), failure("eval"), failure("prep", "timeout after 60 s", "timeout")]


def test_failures_that_differ_in_numbers_and_addresses_alone_are_alike() -> None:
    assert [(group.newest.kind, group.names) for group in groups_of(MANY)] == [
        ("oom", ("train-1", "train-2", "train-3")), ("exit", ("eval",)), ("timeout", ("prep",))
    ]  # fmt: skip


def test_failures_that_differ_in_paths_alone_are_alike() -> None:
    reason = "exit 1: FileNotFoundError: '/data/{}.pt'"
    assert len(groups_of([failure("a", reason.format("a")), failure("b", reason.format("b/c"))])) == 1


def test_the_newest_of_a_group_speaks_for_it() -> None:
    (group,) = groups_of([failure("old", ago_s=500.0), failure("new", ago_s=5.0)])
    assert group.newest.task == "new"


def test_a_long_reason_is_told_in_up_to_four_lines_under_the_cursor_and_in_one_elsewhere() -> None:
    path = "/data/" + "/".join(f"shard-{number}" for number in range(12)) + "/last.pt"
    (group,) = groups_of([failure("a", f"exit 1: FileNotFoundError: No such file or directory: '{path}'")])

    def told(width: int, *, whole: bool) -> list[str]:
        lines = ["".join(text for text, _ in line) for line in lines_of(group, width, NOW_S, whole=whole)]
        return lines[: next(at for at, line in enumerate(lines) if line.startswith("  a  "))]

    assert "last.pt'" in told(80, whole=True)[-1]
    assert len(told(80, whole=False)) == 1
    assert len(told(30, whole=True)) == 4
    assert told(30, whole=True)[-1].endswith("…")
    assert max(len(line) for line in told(30, whole=True)) <= 30


def test_only_failures_that_are_not_told_of_are_said_to_be_missing() -> None:
    assert summary(groups_of(MANY), 5) == "5 tasks failed, in 3 ways"
    assert summary(groups_of(MANY), 900) == "900 tasks failed, in 3 ways; of the newest 5 alone"
    assert summary([], 0) == "nothing has failed"


def test_the_filter_of_a_group_means_its_tasks_and_not_the_others() -> None:
    rows = {
        each.task: TaskRow(index=at, name=each.task, entry="e", state="failed", reason=each.reason, kind=each.kind)
        for at, each in enumerate(MANY)
    }
    for group in groups_of(MANY):
        found = parse(filter_for(group))
        assert {name for name, row in rows.items() if found.matches(row, {})} == set(group.names)


async def test_the_group_under_the_cursor_stays_until_it_is_left_though_nothing_of_it_is_failed_any_more() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view) as (_, pilot):
        view.show(groups_of(MANY), 5)
        await pilot.pause()
        view.show(groups_of(MANY[3:]), 2)
        await pilot.pause()
        assert view.group is not None
        assert view.group.newest.kind == "oom"
        assert any(line.startswith("↻ 3 × out of memory") for line in lines(view))
        view.move(1)
        await pilot.pause()
        assert view.group.newest.kind == "exit"
        assert not any("out of memory" in line for line in lines(view))
        view.move(-1)
        assert view.group.newest.kind == "exit"


async def test_a_page_without_failures_says_so_where_they_would_be() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view):
        assert not "".join(lines(view))
        view.show([], 0)
        assert "nothing has failed" in [line.strip() for line in lines(view)[:-1]]


async def test_the_cursors_group_shows_the_end_of_its_newest_log() -> None:
    asked: set[str] = set()

    def digest(failure: Failure) -> tuple[str, ...]:
        asked.add(failure.task)
        return ("Traceback", f"RuntimeError of {failure.task}")

    view = ErrorList(digest=digest, now=lambda: NOW_S)
    async with page_app(view):
        view.show(groups_of(MANY), 5)
        assert asked == {"train-1"}
        assert any("│ RuntimeError of train-1" in line for line in lines(view))
        view.move(1)
        assert any("│ RuntimeError of eval" in line for line in lines(view))
        assert not any("train-1" in line and "│" in line for line in lines(view))


async def test_what_the_view_posts_is_about_the_group_under_the_cursor() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view) as (app, pilot):
        view.show(groups_of(MANY), 5)
        view.open_log()
        view.open_task()
        view.retry()
        view.filter_table()
        await pilot.pause()
        log, task, retried, filtered = app.told
        assert log == OpenLogs(("train-1",), 2, first_error=True)
        assert task == OpenTask("train-1")
        assert retried == Acted("retry", ("train-1", "train-2", "train-3"))
        assert isinstance(filtered, FilterTable)


async def test_a_click_chooses_and_a_double_click_opens_the_log() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view) as (app, pilot):
        view.show(groups_of(MANY), 5)
        await pilot.pause()
        y = next(at for at, line in enumerate(lines(view)) if "ValueError" in line)
        await pilot.click(ErrorList, offset=(3, y), times=2)
        await pilot.pause()
        assert view.group is not None
        assert view.group.names == ("eval",)
        assert [message.names for message in app.told if isinstance(message, OpenLogs)] == [("eval",)]


async def test_the_cursor_stays_on_its_group_when_others_come_before_it() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view):
        view.show(groups_of(MANY), 5)
        view.move(2)
        name = view.group
        view.show(
            groups_of([*MANY, *(failure(f"x{at}", f"signal {'abcd'[at % 4]}", "signal") for at in range(40))]), 45
        )
        assert view.group is not None
        assert name is not None
        assert view.group.key == name.key


async def test_many_groups_scroll_with_the_cursor() -> None:
    view = ErrorList(now=lambda: NOW_S)
    async with page_app(view, size=(80, 12)) as (_, pilot):
        view.show(groups_of([failure(f"t{at}", f"exit 1: {'abcdefghijklmnop'[at]}Error") for at in range(16)]), 16)
        view.move(99)
        await pilot.pause()
        assert view.group is not None
        assert any(view.group.newest.task in line for line in lines(view))


@pytest.mark.parametrize(
    ("size", "theme"), list(zip(SIZES, cycle(("gpudeck", "gpudeck-light", "ansi-dark")), strict=False))
)
async def test_it_fits_any_terminal(size: tuple[int, int], theme: str) -> None:
    view = ErrorList(digest=lambda _: ("x" * 300, "訓練" * 100), now=lambda: NOW_S)
    async with page_app(view, size=size, theme=theme) as (_, pilot):
        view.show(groups_of(MANY), 5)
        await pilot.pause()
        width, height = view.scrollable_content_region.size
        assert all(view.render_line(y).cell_length == width for y in range(height))


async def test_what_comes_from_outside_harms_nothing() -> None:
    view = ErrorList(digest=lambda _: tuple(HOSTILE), now=lambda: NOW_S)
    async with page_app(view, size=(100, 60)) as (_, pilot):
        view.show(groups_of([failure(name, name, name) for name in HOSTILE]), len(HOSTILE))
        for _ in HOSTILE:
            await pilot.pause()
            assert all(is_harmless(line) for line in lines(view))
            view.move(1)
