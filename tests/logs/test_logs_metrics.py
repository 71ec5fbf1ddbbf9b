"""Numbers that tasks report."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import Values, documents, finder, from_text, numbers_at, to_text


@pytest.mark.parametrize(("by", "best"), [("max", 0.9), ("min", 0.1), ("last", 0.5)])
def test_the_best_is_by_the_tasks_own_measure(by: str, best: float) -> None:
    values = Values(by)
    for value in (0.1, 0.9, 0.5):
        values.take(value)
    assert (values.last, values.best) == (0.5, best)


@pytest.mark.parametrize("last", [math.nan, math.inf])
def test_what_is_no_number_or_infinite_may_be_the_last_but_not_the_best(last: float) -> None:
    values = Values("max")
    values.take(0.5)
    values.take(last)
    assert values.last == pytest.approx(last, nan_ok=True)
    assert values.best == 0.5


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"acc=([0-9.]+)", "acc=0.91. next acc=0.92,", [0.91, 0.92]),
        (r"\d+", "12 and 13", [12.0, 13.0]),
        (r"acc (\w+)", "acc high acc 3", [3.0]),
        (r"loss ([\d.]+)?", "loss x", []),
        (r"loss (\S+)", "loss nan", [math.nan]),
    ],
)
def test_a_pattern_finds_all_values_of_a_line(pattern: str, line: str, found: list[float]) -> None:
    assert finder(pattern)(line) == pytest.approx(found, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ('{"val": {"acc": 0.9}}', "val.acc", [0.9]),
        ('{"val.acc": 0.9}', "val.acc", [0.9]),
        ('{"val.x": {"acc": "0.9"}}', "val.x.acc", [0.9]),
        ('{"acc": [0.1, 0.9, 0.5]}', "acc", [0.1, 0.9, 0.5]),
        ('{"history": [{"acc": 0.1}, {"acc": 0.9}]}', "history.-1.acc", [0.9]),
        ('{"acc": 0.1}\n{"loss": 1}\n{"acc": 0.2}\n{"ac', "acc", [0.1, 0.2]),
        ('{"acc": NaN}', "acc", [math.nan]),
        ('{"acc": true}', "acc", []),
        ('{"acc": {"x": 1}}', "acc", []),
        ('{"acc": 1', "acc", []),
        ("", "acc", []),
        ("[" * 100_000, "acc", []),
        ('{"acc": 1' + "0" * 400 + "}", "acc", []),
        ("[1, 2]", "5", []),
    ],
)
def test_a_dotted_key_finds_numbers_in_json(text: str, key: str, found: list[float]) -> None:
    assert numbers_at(key, documents(text.encode())) == pytest.approx(found, nan_ok=True)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(
    lambda value: json.dumps(value).encode()
), st.text(max_size=20))  # fmt: skip
def test_no_file_is_too_strange(raw: bytes, key: str) -> None:
    numbers_at(key, documents(raw))


@given(st.dictionaries(st.text(), st.floats()))
def test_values_survive_json(values: dict[str, float]) -> None:
    assert from_text(json.loads(json.dumps(to_text(values)))) == pytest.approx(values, nan_ok=True)
