"""attempt-N.gpu.json stays small however long an attempt lasts, and loses no peak of its memory."""

from __future__ import annotations

from pathlib import Path

from tests.inside.attempts import MOST_POINTS, GpuHistory, Point, Used, encode_history, read_history


def test_a_week_of_readings_is_at_most_512_points() -> None:
    history = GpuHistory()
    used = Used(history)
    for second in range(7 * 24 * 3600):
        used.mark(Point(float(second), 50.0, 1_000 if second != 77_777 else 9_999, 300.0))

    assert MOST_POINTS // 2 <= len(history.at_s) < MOST_POINTS
    assert max(mib for mib in history.memory_mib if mib is not None) == 9_999
    assert {(point.util_percent, point.power_w) for point in history.points()} == {(50.0, 300.0)}
    assert history.at_s == sorted(history.at_s)
    assert history.at_s[-1] > 0.99 * 7 * 24 * 3600
    assert len(encode_history(history)) < 20_000


def test_what_was_not_told_stays_a_gap() -> None:
    history = GpuHistory()
    used = Used(history)
    used.mark(Point(1.0, None, None, None))
    used.mark(Point(2.0, 10.0, None, None))
    assert (history.util_percent, history.power_w) == ([None, 10.0], [None, None])


def test_a_file_is_read_back_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "attempt-1.gpu.json"
    history = GpuHistory([1.0], [50.0], [7], [100.0], drawn={"GPU-1": (5.0, 1.0)})
    path.write_bytes(encode_history(history))
    assert read_history(str(path)) == history

    path.write_bytes(encode_history(history)[:20])
    assert read_history(str(path)) is None
    assert read_history(str(tmp_path / "missing")) is None
