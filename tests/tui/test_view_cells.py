"""Cells of the table: what they say, that they fit, and that nothing in them can act on a terminal."""

from __future__ import annotations

import math
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpudeck.engine.protocol.wire import TaskRow
from tests.inside.tui import COLUMNS, Moment, cell, plain_text
from tests.inside.tui import format as f
from tests.tui.table_rig import NOW_S, row, running

HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202eevil\u2066[/][red]\x00\r\n字字\u200d\ufe0f\ud800"


def said(column: str, found: TaskRow, width: int = 40) -> str:
    return "".join(text for text, _ in cell(column, found, width, Moment(NOW_S)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (724, "12m04s"), (3600, "1h00m"), (11520, "3h12m"), (90000, "1d01h"),
        (120 * 86400, "120d"), (-5, "0s"), (None, ""), (math.inf, ""), (math.nan, ""),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert f.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(42, "~42s"), (724, "~12m"), (3599, "~1h00m"), (11520, "~3h12m"), (None, "")]
)
def test_expected_times_are_rough(seconds: float | None, text: str) -> None:
    assert f.about(seconds) == text


def test_a_time_that_no_clock_knows_is_not_an_error() -> None:
    assert f.clock(1e30, NOW_S) == "?"


def test_a_long_name_keeps_both_ends() -> None:
    assert f.cut_middle("train-sym-noise-0.375-seed-12", 16) == "train-…5-seed-12"


@given(st.text(max_size=60), st.integers(0, 40))
def test_cut_texts_fit(text: str, width: int) -> None:
    shown = f.clean(text)
    assert max(cell_len(f.cut(shown, width)), cell_len(f.cut_middle(shown, width))) <= width
    assert cell_len(f.fit(shown, width)) == width


@given(st.text(max_size=60))
def test_nothing_in_a_clean_text_acts_on_a_terminal(text: str) -> None:
    assert not [char for char in f.clean(text) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_a_hostile_name_is_shown_as_plain_text() -> None:
    assert f.clean(HOSTILE) == "]52;c;aGk=31mevil[/][red]  字字�"


@pytest.mark.parametrize("selector", ["\ufe00", "\ufe0f", "\U000e0100", "\U000e01ef"])
def test_what_only_selects_the_look_of_a_character_is_left_out(selector: str) -> None:
    assert f.clean(f"a{selector}b") == "ab"


@pytest.mark.parametrize(("days", "shown"), [(0, "%H:%M"), (1, "%a %H:%M"), (7, "%Y-%m-%d")])
def test_a_time_is_told_with_its_day_where_that_is_not_today(days: int, shown: str) -> None:
    then = NOW_S - days * 86400
    assert f.clock(then, NOW_S) == time.strftime(shown, time.localtime(then))


def test_heaps_of_accents_stay_on_their_line() -> None:
    assert len(f.clean("z" + "\u0321" * 300)) == 4


@given(st.lists(st.floats(), max_size=20), st.integers(0, 12))
def test_a_sparkline_has_a_cell_for_each_value_or_all_its_width(values: list[float], width: int) -> None:
    assert len(f.sparkline(values, width)) == min(len(values), width)


@given(st.floats(), st.integers(0, 30))
def test_both_parts_of_a_bar_fill_its_width(share: float, width: int) -> None:
    assert sum(map(len, f.bar(share, width))) == width


def test_100_percent_is_said_of_what_is_complete_only() -> None:
    assert (f.percent(0.999), f.percent(1.0)) == ("99%", "100%")


texts = st.text(max_size=20)
any_rows = st.builds(
    TaskRow,
    index=st.integers(0, 9),
    name=texts,
    entry=texts,
    state=st.sampled_from(["waiting", "running", "backoff", "succeeded", "failed", "unknown", "stopping"]),
    held=st.booleans(),
    gone=st.booleans(),
    stale=st.booleans(),
    needs_gpus=st.integers(0, 8),
    gpus=st.lists(st.integers(0, 99), max_size=8).map(tuple),
    attempt=st.integers(0, 10000),
    started=st.none() | st.floats(),
    duration_s=st.none() | st.floats(),
    expected_s=st.none() | st.floats(),
    retry_at=st.none() | st.floats(),
    reason=texts,
    tags=st.lists(texts, max_size=2).map(tuple),
    params=st.dictionaries(texts, texts, max_size=2),
    progress=st.none() | st.floats(),
    eta_s=st.none() | st.floats(),
    metrics=st.dictionaries(texts, st.floats(), max_size=2),
    curve=st.lists(st.floats(), max_size=9).map(tuple),
)


@given(any_rows, st.sampled_from(list(COLUMNS)), st.integers(1, 40))
def test_any_row_has_a_cell_in_every_column(found: TaskRow, column: str, width: int) -> None:
    pieces = cell(column, found, width, Moment(NOW_S))
    assert "".join(text for text, _ in pieces) == f.clean("".join(text for text, _ in pieces))
    plain_text(column, found, NOW_S)


def test_a_running_task_tells_how_long_and_how_long_yet() -> None:
    found = running(0, eta_s=724.0, progress=0.5)
    assert (said("time", found), said("eta", found), said("progress", found, 9)) == ("1m05s", "~12m", "━━──  50%")


@pytest.mark.parametrize(
    ("column", "found", "width", "text"),
    [
        ("eta", running(0, expected_s=665.0), 40, "~10m"),
        ("eta", running(0, expected_s=5.0), 40, ""),
        ("gpu", running(0, gpus=(0, 1, 2, 5)), 40, "0-2,5"),
        ("gpu", running(0, gpus=(), needs_gpus=0), 40, "cpu"),
        ("metric", running(0, metrics={"loss": 0.25}, curve=(3.0, 2.0, 1.0)), 20, "loss   0.25 █▅▁"),
        ("metric", running(0, metrics={"acc": 0.904}, best={"acc": 0.9086}), 12, "acc   0.9086"),
        ("state", row(0, "dreaming"), 11, "? dreaming"),  # pyright: ignore[reportArgumentType]
    ],
    ids=["what such took", "overdue", "a gang", "no GPU", "history", "best", "a state of a newer engine"],
)
def test_a_cell_says(column: str, found: TaskRow, width: int, text: str) -> None:
    assert said(column, found, width) == text


def test_a_backoff_tells_until_when() -> None:
    found = row(0, "backoff", retry_at=NOW_S + 42, reason="exit 1")
    assert said("eta", found) == "in 42s"
    assert said("reason", found).startswith("exit 1; again at ")


def test_a_task_that_has_not_begun_tells_how_many_gpus_it_takes() -> None:
    texts = [said("gpu", row(0, needs_gpus=number)) for number in (0, 1, 4)]
    assert texts == ["", "", "×4"]


def test_a_sparkline_is_of_all_that_a_metric_has_been() -> None:
    assert f.sparkline([float(value) for value in range(17)], 8) == "▁▂▃▄▅▆▇█"


def test_a_succeeded_task_says_no_reason_and_a_waiting_one_the_reason_before() -> None:
    reasons = [said("reason", row(0, state, reason="exit 1")) for state in ("succeeded", "failed", "queued")]
    assert reasons == ["", "exit 1", "before: exit 1"]


def test_flags_are_told_by_mark_and_word() -> None:
    found = row(0, "succeeded", changed=True, stale=True)
    assert (said("flags", found), said("reason", found)) == ("≠↺", "changed, stale")


def test_the_rung_that_a_task_is_on_comes_first_whatever_became_of_it() -> None:
    states = ("running", "failed", "succeeded")
    rows = [row(0, state, reason="out of memory", kind="oom", rung=2, rungs=3) for state in states]
    assert [said("reason", found) for found in rows] == [
        "rung 2 of 3; before: out of memory",
        "rung 2 of 3; out of memory",
        "rung 2 of 3",
    ]


def test_the_rungs_of_both_ladders_that_a_task_is_on_are_told() -> None:
    found = row(0, "running", rung=1, rungs=2, timeout_rung=2, timeout_rungs=2)
    assert said("reason", found) == "rung 1 of 2, timeout rung 2 of 2"


def test_a_held_task_in_backoff_tells_of_no_start_that_will_not_come() -> None:
    found = row(0, "backoff", retry_at=NOW_S + 42, reason="exit 1", held=True)
    assert (said("eta", found), said("reason", found)) == ("", "held  exit 1")
