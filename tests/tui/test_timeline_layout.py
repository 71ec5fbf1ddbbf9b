"""Attempts become lanes, and lanes pieces of text."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.protocol.pages import AttemptRow
from tests.inside.tui import Lane, Window, axis, lanes_of, pieces, tone_of, whole, width_of

NOW_S = 2000.0


def ran(task: str, start: float, end: float | None, *gpus: int, kind: str = "ok") -> AttemptRow:
    return AttemptRow(task=task, attempt=1, gpus=gpus, start=start, end=end, kind="" if end is None else kind)


def drawn(lane: Lane, start: float = 1000.0, span_s: float = 20.0, width: int = 20) -> str:
    return "".join(piece.text for piece in pieces(lane, Window(start, span_s), width, NOW_S))


def lane(*rows: AttemptRow) -> Lane:
    (found,) = lanes_of(rows, [])
    return found


def names(lanes: list[Lane]) -> list[tuple[str, list[str]]]:
    return [(lane.label, [row.task for row in lane.rows]) for lane in lanes]


def test_each_gpu_has_a_lane_and_the_cpu_comes_last() -> None:
    found = lanes_of([ran("c", 0, 1), ran("b", 0, 1, 1), ran("a", 0, 1, 0)], [0, 1, 2])
    assert names(found) == [("GPU 0", ["a"]), ("GPU 1", ["b"]), ("GPU 2", []), ("CPU", ["c"])]


def test_what_overlaps_on_one_gpu_gets_another_lane_and_what_follows_reuses_it() -> None:
    found = lanes_of([ran("a", 0, 10, 0), ran("b", 5, 8, 0), ran("c", 8, 20, 0), ran("d", 10, 20, 0)], [])
    assert names(found) == [("GPU 0", ["a", "d"]), ("   ·2", ["b", "c"])]


def test_a_task_on_two_gpus_is_in_both_lanes() -> None:
    assert names(lanes_of([ran("a", 0, 10, 0, 3)], [])) == [("GPU 0", ["a"]), ("GPU 3", ["a"])]


def test_nodes_of_a_cluster_have_lanes_by_their_numbers_and_what_shares_one_gets_another() -> None:
    def on(task: str, start: float, *nodes: str) -> AttemptRow:
        return AttemptRow(task=task, attempt=1, nodes=nodes, start=start, end=start + 10, kind="ok")

    found = lanes_of([on("a", 0, "gpu10"), on("b", 0, "gpu9", "gpu10"), on("c", 10, "gpu9")], [])
    assert names(found) == [("gpu9", ["b", "c"]), ("gpu10", ["a"]), ("   ·2", ["b"])]


def test_a_nodes_long_name_keeps_both_ends() -> None:
    (found,) = lanes_of([AttemptRow(task="a", attempt=1, nodes=("gpu-rack3-n07",), start=0.0)], [])
    assert found.label == "gpu…n07"


def test_clocks_that_differ_a_little_make_no_new_lane() -> None:
    assert len(lanes_of([ran("a", 0, 10.02, 0), ran("b", 10, 20, 0)], [])) == 1


@pytest.mark.parametrize(
    ("rows", "start", "text"),
    [
        ([ran("ab", 1002, 1010, 0)], 1000.0, "  ✓ab ────          "),
        ([ran("ab", 1000, 1003, 0, kind="oom")], 1000.0, "✗──                 "),
        ([ran("ab", 1990, None, 0)], 1988.0, "  ●ab ──────        "),
        ([ran("aa", 1000, 1010, 0), ran("bb", 1010.2, 1020, 0, kind="exit")], 1000.0, "✓aa ──────✗bb ──────"),
        ([ran("a", 1005.1, 1005.2, 0)], 1000.0, "     ✓              "),
    ],
    ids=["its name", "no room for it", "until now", "neighbours", "too short for a cell"],
)
def test_a_bar_lies_where_its_attempt_ran(rows: list[AttemptRow], start: float, text: str) -> None:
    assert drawn(lane(*rows), start) == text


def test_many_in_one_cell_are_told_by_one_sign_and_failures_among_them_by_its_tone() -> None:
    rows = [ran(f"t{at}", 1005 + at / 10, 1005.1 + at / 10, 0, kind="exit" if at == 3 else "ok") for at in range(9)]
    found = [piece for piece in pieces(lane(*rows), Window(1000, 20), 20, NOW_S) if piece.tone != "gap"]
    assert [(piece.text, piece.tone) for piece in found] == [("▒", "bad")]


def test_a_gap_of_more_than_half_a_cell_shows() -> None:
    text = drawn(lane(ran("a", 1000, 1005.2, 0), ran("b", 1006.8, 1012, 0)))
    assert text[5] == " " or text[6] == " "


def test_a_name_of_wide_characters_takes_no_more_cells_than_its_bar() -> None:
    assert width_of(drawn(lane(ran("訓練訓練訓練訓練訓練", 1002, 1013, 0)))) == 20


def test_control_characters_in_a_name_do_not_reach_the_bar() -> None:
    assert "\x1b" not in drawn(lane(ran("a\x1b[31mb\x07", 1000, 1020, 0)))


@pytest.mark.parametrize(
    ("kind", "tone"),
    [
        ("ok", "good"), ("exit", "bad"), ("oom", "bad"), ("cancelled", "stopped"), ("interrupted", "stopped"),
        ("lost", "lost"),
    ],
)  # fmt: skip
def test_outcomes_have_tones(kind: str, tone: str) -> None:
    assert tone_of(ran("a", 0, 1, kind=kind)) == tone


def test_zooming_keeps_what_is_under_the_cursor_where_it_is() -> None:
    closer = Window(1000.0, 100.0).zoomed(0.5, 1025.0)
    assert (closer.span_s, (1025.0 - closer.start) / closer.span_s) == (50.0, 0.25)


def test_nobody_zooms_out_of_all_time_or_into_nothing() -> None:
    window = Window(1000.0, 100.0)
    for _ in range(100):
        window = window.zoomed(0.5, 1050.0)
    assert window.span_s == 5.0
    for _ in range(100):
        window = window.zoomed(2.0, 1050.0)
    assert math.isfinite(window.span_s)


def test_the_whole_is_from_the_first_start_to_now_where_something_lasts() -> None:
    window = whole(lanes_of([ran("a", 1000, 1500, 0), ran("b", 1600, None, 0)], []), NOW_S)
    assert window.start < 1000.0 <= NOW_S < window.end + 11.0


def test_a_deck_in_which_nothing_ran_has_a_window_too() -> None:
    assert whole([], NOW_S) == Window(NOW_S - 3600.0, 3600.0)


def test_the_busy_share_counts_what_lies_in_the_window_alone() -> None:
    found = lane(ran("a", 900, 1100, 0), ran("b", 1150, 1200, 0), ran("c", 1900, None, 0))
    assert found.share(1000, 1200, NOW_S) == pytest.approx(0.75)
    assert found.share(1950, 2100, NOW_S) == pytest.approx(1.0)
    assert found.share(1200, 1900, NOW_S) == pytest.approx(0.0)
    assert found.share(2100, 2200, NOW_S) is None


def test_the_axis_has_whole_local_times_apart_from_each_other() -> None:
    start = time.mktime((2026, 3, 2, 9, 58, 0, 0, 0, -1))
    assert axis(Window(start, 3600.0), 60).split() == ["╵10:00", "╵10:15", "╵10:30", "╵10:45"]


@pytest.mark.parametrize(
    ("span", "times"),
    [
        (8, "09:58:00 09:58:02 09:58:04 09:58:06"),
        (20, "09:58:00 09:58:05 09:58:10 09:58:15"),
        (9 * 86400, "07 Jan 09 Jan 11 Jan 13 Jan"),
        (50 * 86400, "15 Jan 29 Jan 12 Feb"),
    ],
)
def test_times_of_the_axis_are_a_usual_step_apart(span: float, times: str) -> None:
    start = time.mktime((2026, 1, 5, 9, 58, 0, 0, 0, -1))
    assert " ".join(axis(Window(start, span), 60).replace("╵", "").split()) == times


def test_days_on_the_axis_begin_at_their_midnight() -> None:
    line = axis(Window(time.mktime((2026, 1, 6, 0, 0, 0, 0, 0, -1)), 4 * 86400), 48)
    assert [line.index(f"╵{day:02} Jan") for day in (6, 7, 8, 9)] == [0, 12, 24, 36]


ATTEMPTS = st.lists(
    st.tuples(
        st.floats(0, 1e5), st.floats(0, 5000), st.sampled_from([(), (0,), (1,), (0, 1)]),
        st.sampled_from(["ok", "exit", ""]),
    ),
    max_size=30,
)  # fmt: skip


@given(attempts=ATTEMPTS, start=st.floats(-1e4, 1.2e5), span=st.floats(5.0, 1e6), width=st.integers(1, 120))
def test_whatever_ran_a_lane_fills_its_cells_and_no_attempts_overlap(
    attempts: list[tuple[float, float, tuple[int, ...], str]], start: float, span: float, width: int
) -> None:
    rows = [
        ran(f"task {at}", begun, begun + length if kind else None, *gpus, kind=kind)
        for at, (begun, length, gpus, kind) in enumerate(attempts)
    ]
    for found in lanes_of(rows, [0]):
        assert all(end <= later for end, later in zip(found.ends, found.starts[1:], strict=False))
        shown = pieces(found, Window(start, span), width, 1.1e5)
        assert sum(width_of(piece.text) for piece in shown) == width
        share = found.share(start, start + span, 1.1e5)
        assert share is None or 0.0 <= share <= 1.0
    assert len(axis(Window(start, span), width)) == width
