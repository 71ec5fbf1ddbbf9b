"""Curves over each other: means and bands, smoothing, values between points."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.engine import Curve, Member, axes_of, drawn, grouped, mean_of, smoothed, value_at

VALUES = st.floats(-1e6, 1e6)
POINTS = st.lists(st.tuples(st.integers(0, 50).map(float), VALUES), min_size=1, max_size=40).map(sorted)


def member(task: str, points: list[tuple[float, float]], *, x: str = "step", entry: str = "e", **params: str) -> Member:
    curve = Curve(
        "loss", x, tuple(points), len(points), points[-1][1], at_s=tuple(float(at) for at in range(len(points)))
    )
    return Member(task, entry, params, {"loss": curve})


def test_tasks_that_differ_in_their_seed_alone_are_one_line_with_its_mean_and_deviation() -> None:
    members = [
        member("a1", [(1, 1.0), (3, 3.0)], lr="0.1", seed="1"), member("a2", [(1, 3.0), (2, 4.0)], lr="0.1", seed="2"),
        member("b1", [(1, 9.0)], lr="0.2", seed="1"), member("c", [(1, 7.0)], entry="other"),
    ]  # fmt: skip
    first, second, third = drawn(members, "loss", "step", groups=True)
    assert (first.label, first.tasks, first.points) == ("lr=0.1", ("a1", "a2"), [(1, 2.0), (2, 3.0), (3, 3.0)])
    assert first.band is not None
    assert first.band[0][0] == (1, 2 - math.sqrt(2))
    assert (second.label, second.band, third.label) == ("lr=0.2", None, "c")
    assert [line.label for line in drawn(members, "loss", "step", groups=False)] == ["a1", "a2", "b1", "c"]


def test_lines_of_two_entries_with_the_same_params_are_told_apart() -> None:
    members = [
        member(f"{entry}-s{seed}", [(1, 1.0)], entry=f"{entry}-s{{seed}}", lr="0.1", seed=seed)
        for entry in ("adam", "sgd")
        for seed in ("1", "2")
    ]
    members += [member(f"lr{lr}-s1", [(1, 1.0)], entry="lr{lr}-s{seed}", lr=lr, seed="1") for lr in ("0.1", "0.2")]
    labels = [line.label for line in drawn(members, "loss", "step", groups=True)]
    assert labels == ["adam-s{seed} lr=0.1", "sgd-s{seed} lr=0.1", "lr{lr}-s{seed} lr=0.1", "lr=0.2"]


def test_a_curve_that_counts_something_else_says_what() -> None:
    members = [member("a", [(1, 1.0)]), member("b", [(1, 1.0)], x="epoch"), Member("c", "e", {}, {})]
    assert axes_of(members, "loss") == ["step", "epoch", "time"]
    told = [(line.points, line.axis) for line in drawn(members, "loss", "step", groups=False)]
    assert told == [(((1, 1.0),), ""), ((), "epoch"), ((), "")]


@pytest.mark.parametrize(("x", "value"), [(0, None), (1, 10), (1.5, 15), (2, 20), (3, None)])
def test_a_value_between_two_points_lies_on_their_line_and_outside_there_is_none(x: float, value: object) -> None:
    assert value_at([(1, 10.0), (2, 20.0)], x) == value


@given(st.lists(POINTS, min_size=1, max_size=5))
def test_a_mean_lies_within_its_band_and_among_its_values_and_its_xs_grow(
    members: list[list[tuple[float, float]]],
) -> None:
    points, band = mean_of(members)
    values = [value for one in members for _, value in one]
    slack = 1e-9 * max(map(abs, values), default=0) + 1e-9
    assert [x for x, _ in points] == sorted({x for one in members for x, _ in one})
    assert all(min(values) - slack <= value <= max(values) + slack for _, value in points)
    if band is not None:
        assert all(low[1] <= mean[1] <= high[1] for low, mean, high in zip(band[0], points, band[1], strict=True))


@given(POINTS, st.sampled_from((0.0, 0.6, 0.97)))
def test_smoothing_keeps_xs_and_stays_among_the_values(points: list[tuple[float, float]], weight: float) -> None:
    found = smoothed(points, weight)
    values = [value for _, value in points]
    slack = 1e-9 * max(map(abs, values)) + 1e-9
    assert [x for x, _ in found] == [x for x, _ in points]
    assert all(min(values) - slack <= value <= max(values) + slack for _, value in found)


def test_what_is_no_number_stays_in_a_smoothed_curve_and_changes_nothing_behind_it() -> None:
    assert repr(smoothed([(1, 2.0), (2, math.nan), (3, 2.0)], 0.5)) == "[(1, 2.0), (2, nan), (3, 2.0)]"


def test_where_no_run_has_a_number_mean_and_band_have_a_gap() -> None:
    points, band = mean_of([[(1, 1.0), (2, math.nan), (3, 1.0)], [(1, 3.0), (2, math.inf), (3, 3.0)]])
    assert band is not None
    for line in (points, *band):
        assert [x for x, _ in line] == [1, 2, 3]
        assert [math.isfinite(value) for _, value in line] == [True, False, True]


def test_a_group_of_one_without_params_is_called_as_its_task() -> None:
    assert [label for label, _ in grouped([member("solo", [(1, 1.0)])])] == ["solo"]
