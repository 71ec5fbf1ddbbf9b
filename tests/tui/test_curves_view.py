"""The page of curves over each other, as it stands on a terminal."""

from __future__ import annotations

import math

import pytest

from tests.inside.tui import MARKS, Curve, CurvesView, Member
from tests.tui.pages_rig import HOSTILE, is_harmless, lines, page_app


def member(task: str, *values: float, x: str = "step", **params: str) -> Member:
    points = tuple((float(at), value) for at, value in enumerate(values))
    finite = [value for value in values if math.isfinite(value)]
    ends = ((0.0, min(finite)), (0.0, max(finite))) if finite else (None, None)
    return Member(task, "train", params, {"loss": Curve("loss", x, points, len(points), values[-1], *ends)})


async def test_what_stands_on_the_page() -> None:
    view = CurvesView()
    members = [
        member("adam-s1", 4.0, 2.0, 1.0, method="adam", seed="1"),
        member("adam-s2", 4.0, 4.0, 3.0, method="adam", seed="2"),
        member("sgd-s1", 4.0, math.nan, 5.0, method="sgd", seed="1"), Member("late", "train", {}, {}),
    ]  # fmt: skip
    async with page_app(view, size=(50, 14)):
        view.show(members, ("loss",), reading=False)
        view.pin()
        found = lines(view)
    assert found == [
        " loss over step   mean ± deviation over seeds",
        "        5 │                                      b",
        "          │a⡀ ░░░░░░░░░░░░░░░░░░░░░░░",
        "          │░⠈⠉⠉⠑⠒⠒⠤⠤⢄⣀⣀a░░░░░░░░░░░░░░░░░░░░░░░░░",
        "          │     ░░░░░░░⠈⠉⠉⠒⠒⠒⠤⠤⢄⣀⣀⡀░░░░░░░░░░░░░░░",
        "          │          ░░░░░░░░░░░░░⠈a⠉⠒⠒⠒⠤⠤⠤⣀⣀⡀░░░░",
        "          │               ░░░░░░░░░░░░░░░░░░░⠈⠉⠉⠑a",
        "          │                     ░░░░░░░░░░░░░░░░░░",
        "   0.5858 │                                 ░░░░░░",
        "          └step 0                                2",
        "▸a method=adam (2)                 2    baseline",
        " b method=sgd                      5          +3",
        " c late                     none yet           –",
        " last values   4 tasks",
    ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)])
async def test_thirty_curves_with_gaps_have_a_letter_each_at_any_size(size: tuple[int, int]) -> None:
    view = CurvesView()
    many = [member(f"t{place}", place, math.inf, math.nan, place + 0.5, place + 1.0) for place in range(31)]
    async with page_app(view, size=size):
        view.show(many, (), reading=False)
        for act in (view.toggle_log, view.smooth, view.next_axis, view.pin, lambda: view.move_column(-2)):
            act()
            assert all(len(line) <= size[0] for line in lines(view))
        view.toggle_log()
        text = "\n".join(lines(view))
        seen = {mark for mark in MARKS if mark in text}
        assert len(seen) >= (25 if size[0] >= 80 else 1)
        assert size[0] < 80 or "1 more are left out: mark fewer" in text


async def test_names_from_outside_are_text_and_harm_nothing() -> None:
    view = CurvesView()
    async with page_app(view):
        view.show([member(name, 1.0, 2.0) for name in HOSTILE], HOSTILE, reading=False)
        assert all(is_harmless(line) for line in lines(view))


async def test_a_task_that_has_ended_and_never_told_a_metric_says_so_once_its_files_are_read() -> None:
    view = CurvesView()
    members = [member("a" * 60, 4.0, 2.0), Member("b" * 60, "train", {}, {}, ended=True), Member("c", "train", {}, {})]
    async with page_app(view, size=(60, 14)):
        said = list[list[str]]()
        for reading in (True, False):
            view.show(members, ("loss",), reading=reading)
            said.append([line.split()[-2:] for line in lines(view)[-3:-1]])
    assert said == [[["none", "yet"]] * 2, [["wrote", "it"], ["none", "yet"]]]


async def test_a_metric_that_never_was_a_number_says_so() -> None:
    view = CurvesView()
    async with page_app(view):
        view.show([member("a", math.nan, math.inf)], (), reading=False)
        assert any("none of its values is a number" in line for line in lines(view))
