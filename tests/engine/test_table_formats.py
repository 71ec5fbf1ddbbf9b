"""Tables as text."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Literal

import pytest

from tests.inside.engine import FORMATS, Cell, Column, Table, decimals_for, measured


def table(*cells: Cell, text: str = "a", best: Literal["max", "min", "last"] = "last") -> Table:
    """A column of cells."""
    found = Table(("task",), (Column("acc", "acc", best),))
    found.rows = [((f"{text}{place}",), (cell,)) for place, cell in enumerate(cells)]
    return found


def value(number: float) -> Cell:
    return Cell((number,))


def mean(*numbers: float) -> Cell:
    return Cell(numbers, spread=True)


def test_markdown_is_aligned_and_marks_the_best() -> None:
    assert FORMATS["md"](table(value(0.5), value(0.75), Cell(), best="max")).splitlines() == [
        "| task |      acc |",
        "| ---- | -------: |",
        "| a0   |     0.50 |",
        "| a1   | **0.75** |",
        "| a2   |        - |",
    ]


def test_means_show_their_deviation_and_a_number_that_differs() -> None:
    lines = FORMATS["md"](table(mean(0.5, 0.6), mean(0.7, 0.7), mean(0.8))).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["0.550 ± 0.071", "0.700 ± 0.000", "0.800 (n=1)"]


def test_a_mean_that_its_values_cannot_tell_from_the_best_is_marked() -> None:
    means = mean(0.90, 0.92), mean(0.91, 0.89), mean(0.50, 0.51), mean(0.9)
    lines = FORMATS["md"](table(*means, best="max")).splitlines()
    shown = [line.split("|")[2].strip() for line in lines[2:]]
    assert shown == ["**0.910 ± 0.014**", "0.900 ± 0.014 ≈", "0.505 ± 0.007", "0.900 (n=1)"]
    assert r"0.900 $\pm$ 0.014 $\approx$" in FORMATS["latex"](table(*means, best="max"))


def test_latex_escapes_and_marks() -> None:
    text = FORMATS["latex"](table(value(1), value(2), text="50% of a_b & c\\{~^#$", best="min"))
    assert r"50\% of a\_b \& c\textbackslash{}\{\textasciitilde{}\textasciicircum{}\#\$0 & \textbf{1} \\" in text
    assert text.startswith(r"\begin{tabular}{lr}")
    assert text.endswith(r"\end{tabular}")


def test_latex_writes_deviations() -> None:
    assert r"0.550 $\pm$ 0.071" in FORMATS["latex"](table(mean(0.5, 0.6)))


@pytest.mark.parametrize("form", ["md", "latex", "csv", "tsv"])
def test_a_value_cannot_write_to_the_terminal_or_break_its_row(form: str) -> None:
    text = FORMATS[form](table(value(1), text="\x1b[31mred\r\x9b2J\u202e"))
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert "red" in text


def test_markdown_keeps_tags_of_names_as_text() -> None:
    assert r"| \<img src=x>0 |" in FORMATS["md"](table(value(1), text="<img src=x>"))


def test_markdown_keeps_bars_of_names_out_of_its_own() -> None:
    assert r"| a\|b0 |" in FORMATS["md"](table(value(1), text="a|b"))


@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_spreadsheets_get_exact_numbers(form: str, delimiter: str) -> None:
    text = FORMATS[form](table(value(1 / 3), value(2.0), Cell(), text='x",\ty'))
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    assert rows == [["task", "acc"], ['x",\ty0', repr(1 / 3)], ['x",\ty1', "2"], ['x",\ty2', ""]]


def test_spreadsheets_get_mean_deviation_and_number_in_columns() -> None:
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](table(mean(1.0, 3.0), mean())))))
    assert rows == [["task", "acc mean", "acc std", "acc n"], ["a0", "2", repr(math.sqrt(2)), "2"], ["a1", "", "", "0"]]


def test_json_has_null_for_what_is_no_number() -> None:
    text = FORMATS["json"](table(value(0.5), value(math.nan), Cell()))
    assert [row["metrics"]["acc"] for row in json.loads(text)] == [0.5, None, None]


def test_json_has_mean_deviation_and_number() -> None:
    assert json.loads(FORMATS["json"](table(mean(1.0, 1.0))))[0]["metrics"]["acc"] == {"mean": 1.0, "std": 0.0, "n": 2}


def test_what_is_no_number_is_shown_as_it_is() -> None:
    assert "| nan |" in FORMATS["md"](table(value(math.nan)))


@pytest.mark.parametrize(
    ("means", "deviations", "decimals"),
    [
        ([0.912345], [], 4),
        ([0.91], [], 2),
        ([91.2345, 9.1], [], 2),
        ([12345.6], [], 0),
        ([3.0, 4.0], [], 0),
        ([0.9123], [0.0123], 3),
        ([91.2], [1.5], 1),
        ([91.2], [15.0], 0),
        ([0.9], [0.0], 1),
        ([1e-5], [], None),
        ([2e7], [], None),
        ([0.0], [], 0),
        ([], [], 0),
        ([math.nan, math.inf], [math.nan], 0),
    ],
)
def test_numbers_get_as_many_decimals_as_they_deserve(
    means: list[float], deviations: list[float], decimals: int | None
) -> None:
    assert decimals_for(means, deviations) == decimals


def test_a_small_number_among_large_ones_is_not_zero() -> None:
    shown = [measured(value, 3) for value in (1.5, 0.000153, -0.0004, 0.0)]
    assert shown == ["1.500", "1.53e-04", "-4.00e-04", "0.000"]
