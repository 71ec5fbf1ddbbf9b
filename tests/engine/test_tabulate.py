"""Tables of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpudeck.engine.errors import UsageError
from tests.inside.engine import Cell, Layout, Result, Table, tabulate

ACC = Layout({"acc": "max"})


def result(params: str, acc: float | None = None, *, entry: str = "train", state: str = "succeeded") -> Result:
    """*params*: "method=base seed=1"."""
    pairs = dict(pair.split("=") for pair in params.split())
    name = "-".join([entry, *pairs.values()])
    values = {} if acc is None else {"acc": acc}
    return Result(name, entry, pairs, state, state == "succeeded", values)


def sweep() -> list[Result]:
    bases = {("base", "cub"): 0.5, ("base", "pets"): 0.6, ("ours", "cub"): 0.7, ("ours", "pets"): 0.5}
    return [
        result(f"method={method} data={data} seed={seed}", base + seed / 100)
        for (method, data), base in bases.items()
        for seed in (1, 2, 3)
    ]


def means(table: Table) -> list[list[float | None]]:
    return [[None if cell.mean is None else round(cell.mean, 3) for cell in cells] for _, cells in table.rows]


def texts(table: Table) -> list[tuple[str, ...]]:
    return [row[0] for row in table.rows]


def test_each_task_is_a_row_with_the_params_that_differ() -> None:
    table = tabulate([result("lr=0.1 size=big", 0.5), result("lr=0.2 size=big")], ACC)
    assert table.heads == ("task", "lr")
    assert texts(table) == [("train-0.1-big", "0.1"), ("train-0.2-big", "0.2")]
    assert means(table) == [[0.5], [None]]


def test_a_number_is_written_as_the_file_writes_it_whatever_a_retry_before_it_wrote() -> None:
    retried = replace(result("lr=1e-1 seed=1", 0.5), given=frozenset({"lr"}))
    table = tabulate([retried, result("lr=0.1 seed=2", 0.5), result("lr=0.2 seed=2")], ACC)
    assert [row[table.heads.index("lr")] for row in texts(table)] == ["0.1", "0.1", "0.2"]


def test_states_are_shown_where_not_all_succeeded() -> None:
    table = tabulate([result("lr=0.1", 0.5), result("lr=0.2", 0.4, state="failed")], ACC)
    assert table.heads == ("task", "lr", "state")
    assert texts(table)[1] == ("train-0.2", "0.2", "failed")


def test_a_mean_over_seeds_has_a_sample_deviation_and_a_number() -> None:
    table = tabulate(sweep(), Layout({"acc": "max"}, over=("seed",)))
    assert table.heads == ("method", "data", "n")
    assert texts(table)[0] == ("base", "cub", "3")
    assert means(table) == [[0.52], [0.62], [0.72], [0.52]]
    assert table.rows[0][1][0].std == pytest.approx(0.01)


def test_one_value_has_no_deviation() -> None:
    assert Cell((0.5,), spread=True).std is None


def test_a_deviation_of_what_is_no_number_is_none_either() -> None:
    std = Cell((0.5, math.nan), spread=True).std
    assert std is not None
    assert math.isnan(std)


def test_a_value_that_is_missing_does_not_count() -> None:
    table = tabulate(
        [result("seed=1", 0.4), result("seed=2"), result("seed=3", 0.6)], Layout(ACC.metrics, over=("seed",))
    )
    assert (texts(table), means(table), len(table.rows[0][1][0].values)) == ([("3",)], [[0.5]], 2)


def test_tasks_of_several_entries_are_kept_apart() -> None:
    found = [result("seed=1", 0.4, entry="a-s{seed}"), result("seed=1", 0.6, entry="b-s{seed}")]
    table = tabulate(found, Layout(ACC.metrics, over=("seed",)))
    assert texts(table) == [("a-s*", "1"), ("b-s*", "1")]


def test_rows_and_columns_make_a_grid() -> None:
    table = tabulate(sweep(), Layout(ACC.metrics, over=("seed",), rows=("method",), columns=("data",)))
    assert [column.head for column in table.columns] == ["cub", "pets"]
    assert texts(table) == [("base",), ("ours",)]
    assert means(table) == [[0.52, 0.62], [0.72, 0.52]]


def test_several_metrics_in_a_grid_are_named() -> None:
    layout = Layout({"acc": "max", "loss": "min"}, over=("seed",), rows=("method",), columns=("data",))
    heads = [column.head for column in tabulate(sweep(), layout).columns]
    assert heads == ["cub acc", "cub loss", "pets acc", "pets loss"]


def test_a_place_of_the_grid_without_a_task_is_empty() -> None:
    found = [result("a=1 b=1", 0.5), result("a=2 b=2", 0.6)]
    assert means(tabulate(found, Layout(ACC.metrics, rows=("a",), columns=("b",)))) == [[0.5, None], [None, 0.6]]


def test_what_differs_within_a_place_must_be_named() -> None:
    with pytest.raises(UsageError, match="they differ in seed; name it in --rows, --columns or --over"):
        tabulate(sweep(), Layout(ACC.metrics, rows=("method",), columns=("data",)))


def test_tasks_of_two_entries_do_not_fall_into_one_place() -> None:
    found = [result("a=1 b=1", 0.5), result("a=1 b=1", 0.6, entry="other")]
    with pytest.raises(UsageError, match="fall into one cell"):
        tabulate(found, Layout(ACC.metrics, rows=("a",), columns=("b",)))


@pytest.mark.parametrize("layout", [{"over": ("sed",)}, {"rows": ("sed",)}, {"columns": ("sed",)}])
def test_a_param_that_nobody_has_is_named(layout: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(UsageError, match="sed: no task has this in its matrix; there are data, method, seed"):
        tabulate(sweep(), Layout(ACC.metrics, **layout))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("best", "way", "places"),
    [
        ("column", "max", {(1, 0), (0, 1)}),
        ("column", "min", {(0, 0), (1, 1)}),
        ("row", "max", {(0, 1), (1, 0)}),
        ("none", "max", set()),
        ("column", "last", set()),
    ],
)
def test_the_best_are_marked_by_row_or_column(best: str, way: str, places: set[tuple[int, int]]) -> None:
    layout = Layout({"acc": way}, over=("seed",), rows=("method",), columns=("data",), best=best)  # pyright: ignore[reportArgumentType]
    assert tabulate(sweep(), layout).marked() == places


def marked(*values: float | None) -> set[tuple[int, int]]:
    return tabulate([result(f"a={place}", value) for place, value in enumerate(values)], ACC).marked()


def test_equal_bests_are_all_marked() -> None:
    assert marked(0.5, 0.7, 0.7) == {(1, 0), (2, 0)}


def test_what_has_failed_is_best_only_while_nothing_has_succeeded() -> None:
    failed = [result(f"a={acc}", acc, state="failed") for acc in (0.8, 0.9)]
    assert tabulate(failed, ACC).marked() == {(1, 0)}
    assert tabulate([*failed, result("a=1", 0.5), result("a=2", 0.6)], ACC).marked() == {(3, 0)}


def test_where_all_are_equal_none_is_best() -> None:
    assert marked(0.5, 0.5) == set()


def test_one_value_alone_is_not_best() -> None:
    assert marked(0.5, None, math.nan) == set()


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("acc", ["2", "10", "1", "3"]), ("acc:desc", ["1", "10", "2", "3"]), ("a", ["1", "2", "3", "10"]),
        ("task:desc", ["train-3", "train-2", "train-10", "train-1"]),
    ],
)  # fmt: skip
def test_rows_are_sorted_by_any_column_what_is_unknown_last(by: str, order: Sequence[str]) -> None:
    found = [result("a=10", 0.5), result("a=2", 0.4), result("a=1", 0.6), result("a=3")]
    table = tabulate(found, Layout(ACC.metrics, sort=by))
    assert [row[0] if by.startswith("task") else row[1] for row in texts(table)] == order


@pytest.mark.parametrize(("by", "words"), [("x", "no column is called so"), ("acc:up", "asc or desc")])
def test_a_wrong_sort_is_said(by: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tabulate([result("a=1", 0.5)], Layout(ACC.metrics, sort=by))
