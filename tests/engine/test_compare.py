"""Two settings side by side: differences, intervals, and how many more runs would tell."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.errors import UsageError
from tests.inside.engine import MOST_MORE, Difference, Layout, Result, compare, student_quantile, tabulate

VALUES = st.lists(st.integers(0, 1000).map(lambda number: number / 1000), min_size=2, max_size=8).map(tuple)


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (1.5, 6.01666), (2, 4.30265), (4, 2.77645), (10, 2.22814), (1000, 1.96234)]
)
def test_quantiles_are_those_of_the_tables(freedom: float, t: float) -> None:
    assert student_quantile(0.95, freedom) == pytest.approx(t, rel=1e-5)


def test_the_interval_is_welchs() -> None:
    """By scipy.stats.ttest_ind(equal_var=False).confidence_interval() of 1.16."""
    first, second = (27.5, 21.0, 19.0, 23.6, 17.0, 17.9), (27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0)
    assert Difference(first, second, paired=False).interval == pytest.approx((-1.696094, 6.696094), abs=1e-5)


def test_pairs_tell_what_their_spread_hides() -> None:
    dice = random.Random(1)
    first = tuple(dice.uniform(0, 10) for _ in range(8))
    second = tuple(value + 0.5 + 0.1 * (place % 2) for place, value in enumerate(first))
    assert not Difference(first, second, paired=False).differs
    assert Difference(first, second, paired=True).differs


@given(VALUES, VALUES)
def test_a_difference_differs_where_its_interval_leaves_zero_out(
    first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    found = Difference(first, second, paired=False)
    assert found.interval is not None
    low, high = found.interval
    if min(abs(low), abs(high)) > 1e-9:
        assert found.differs == (low > 0 or high < 0)
    assert low <= found.mean <= high


@given(VALUES)
def test_with_as_many_more_of_the_same_it_would_be_decided_and_with_one_fewer_not(first: tuple[float, ...]) -> None:
    second = tuple(value + 0.05 for value in first)
    more = Difference(first, second, paired=False).more
    if more is None or more > MOST_MORE - len(first):
        return

    def decided(each: int) -> bool:
        """Of samples with the same deviation, as near as whole copies come to it."""
        error = math.sqrt(2 * _variance(first) / each)
        return error * student_quantile(0.95, 2 * each - 2) < 0.05

    assert decided(len(first) + more)
    assert not decided(len(first) + more - 1)


def _variance(values: tuple[float, ...]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


@pytest.mark.parametrize("values", [(0.9,), (0.9, math.nan), (0.9, math.inf)])
def test_of_one_value_or_of_what_is_no_number_nothing_is_told(values: tuple[float, ...]) -> None:
    found = Difference(values, (0.8, 0.7), paired=False)
    assert (found.interval, found.differs, found.more) == (None, False, None)


def test_values_without_any_spread_differ_where_they_are_not_alike() -> None:
    assert Difference((0.5, 0.5), (0.6, 0.6), paired=False).differs
    assert not Difference((0.5, 0.5), (0.5, 0.5), paired=False).differs
    assert Difference((0.5, 0.5), (0.5, 0.5), paired=False).more is None


def result(method: str, seed: int, value: float, **more: str) -> Result:
    params: Mapping[str, str] = {"method": method, "seed": str(seed), **more}
    return Result("-".join(params.values()), "train", params, "succeeded", True, {"acc": value})


def side(method: str, values: list[float], **more: str) -> list[Result]:
    return [result(method, seed, value, **more) for seed, value in enumerate(values)]


ACC = {"acc": "max"}


def test_what_both_have_makes_the_rows_and_what_one_has_alone_is_counted() -> None:
    first = [*side("adam", [0.9, 0.91], data="mnist"), *side("adam", [0.5, 0.51], data="cifar")]
    second = [*side("sgd", [0.8, 0.81], data="mnist"), *side("sgd", [0.6, 0.61], data="svhn")]
    found = compare(first, second, ACC, ["seed"], paired=False)
    assert found.params == ("data",)
    assert [(row.setting, row.verdict) for row in found.rows] == [(("mnist",), "first")]
    assert found.lonely == {"adam-0-cifar", "adam-1-cifar", "sgd-0-svhn", "sgd-1-svhn"}


def test_the_smaller_one_is_better_where_the_metric_says_so() -> None:
    (row,) = compare(side("a", [0.9, 0.91]), side("b", [0.1, 0.11]), {"acc": "min"}, ["seed"], paired=False).rows
    assert row.verdict == "second"


def test_pairs_are_made_by_the_seed() -> None:
    first, second = side("a", [0.1, 0.2, 0.3]), side("b", [0.1, 0.2, 0.3])[1:]
    found = compare(first, second, ACC, ["seed"], paired=True)
    assert found.rows[0].difference.first == found.rows[0].difference.second == (0.2, 0.3)
    assert found.lonely == {"a-0"}


def test_runs_of_one_side_that_differ_only_where_nobody_asked_are_refused_with_the_option_that_helps() -> None:
    second = side("b", [0.3, 0.4, 0.5])[2:]
    with pytest.raises(UsageError, match=r"a-0 and a-1 are of one side .*: `--over method,seed` takes them together"):
        compare(side("a", [0.1, 0.2]), second, ACC, ["method"], paired=False)


def test_runs_of_one_side_that_differ_in_nothing_named_are_refused() -> None:
    twice = [result("a", 1, 0.5), result("a", 1, 0.5, note="again")]
    with pytest.raises(UsageError, match="of one side and of one setting: they differ in no param, so choose one"):
        compare(
            [twice[0], Result("other", "train", twice[0].params, "succeeded", True, {})],
            side("b", [1]),
            ACC,
            [],
            paired=False,
        )
    with pytest.raises(UsageError, match="size: no task has this in its matrix; there are method, seed"):
        compare(side("a", [1]), side("b", [1]), ACC, ["size"], paired=False)
    with pytest.raises(UsageError, match="a-0: of both sides"):
        compare(side("a", [1]), side("a", [1]), ACC, ["seed"], paired=False)


def test_numbers_that_are_equal_are_one_setting_however_they_are_written() -> None:
    first, second = side("a", [0.9, 0.91], lr="0.1"), side("b", [0.8, 0.81], lr="1e-1")
    found = compare(first, second, ACC, ["seed"], paired=False)
    assert (found.params, len(found.rows)) == ((), 1)
    table = tabulate([*first, *second], Layout({"acc": "max"}, over=("seed", "method")))
    assert [row for row, _ in table.rows] == [("4",)]


@pytest.mark.parametrize(("one", "other"), [("1.1", "1.10"), ("7", "007"), (str(2**53), str(2**53 + 1))])
def test_versions_padded_names_and_large_seeds_stay_apart(one: str, other: str) -> None:
    results = [*side("a", [0.9, 0.91], version=one), *side("a", [0.8, 0.81], version=other)]
    table = tabulate(results, Layout({"acc": "max"}, over=("seed",)))
    assert [row for row, _ in table.rows] == [(one, "2"), (other, "2")]
