"""Logs and metrics files while they are written."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import FILE_BYTES, LINE_CHARS, MOST_BYTES, MetricsFile, Stream


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "attempt-1.log"


def append(log: Path, text: str | bytes) -> None:
    with log.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def test_new_lines_are_given_out_once(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "a\nb\n")
    assert stream.read() == (True, ["a", "b"])
    assert stream.read() == (False, [])
    append(log, "c\n")
    assert stream.read() == (True, ["c"])


def test_a_log_that_is_not_there_yet_is_waited_for(log: Path) -> None:
    stream = Stream(str(log))
    assert stream.read() == (False, [])
    append(log, "a\n")
    assert stream.read() == (True, ["a"])


def test_half_a_line_waits_for_its_other_half(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "epoch 4/1")
    assert stream.read() == (True, [])
    append(log, "00\n")
    assert stream.read() == (True, ["epoch 4/100"])


def test_a_line_without_an_end_is_given_out_when_nothing_follows(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "\r50%\r60%")
    assert stream.read() == (True, ["50%"])
    assert stream.read() == (False, ["60%"])
    assert stream.read() == (False, [])


def test_the_last_look_takes_half_lines_too(log: Path) -> None:
    append(log, "a\nb")
    assert Stream(str(log)).read(final=True) == (True, ["a", "b"])


def test_frames_of_bars_are_lines(log: Path) -> None:
    append(log, "\r1/3\r2/3\r3/3\r\ndone\r\n")
    assert Stream(str(log)).read()[1] == ["1/3", "2/3", "3/3", "done"]


def test_a_log_that_was_cut_is_read_from_its_beginning(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "a long line\n")
    stream.read()
    log.write_text("b\n")
    assert stream.read() == (True, ["b"])


def test_a_log_that_was_replaced_is_read_from_its_beginning(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "a\n")
    stream.read()
    other = log.with_name("other")
    other.write_text("b\nc\nd\n")
    os.replace(other, log)
    assert stream.read() == (True, ["b", "c", "d"])


def test_a_log_that_vanished_is_no_error(log: Path) -> None:
    stream = Stream(str(log))
    append(log, "a\n")
    stream.read()
    log.unlink()
    assert stream.read() == (False, [])


def test_of_a_huge_log_only_the_end_is_read(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(1 << 30)  # without taking space
        file.seek(0, os.SEEK_END)
        file.write(b"\nepoch 1/2\nepoch 2/2\n")
    tracemalloc.start()
    try:
        _, lines = Stream(str(log)).read()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == ["epoch 1/2", "epoch 2/2"]
    assert most < 20 * MOST_BYTES


def test_what_begins_within_a_line_is_left_out(log: Path) -> None:
    append(log, "x" * MOST_BYTES + " epoch 9/9\nepoch 1/2\n")
    assert Stream(str(log)).read()[1] == ["epoch 1/2"]


def test_long_lines_are_cut(log: Path) -> None:
    append(log, "x" * 10_000 + "\n")
    assert Stream(str(log)).read()[1] == ["x" * LINE_CHARS]


def test_a_line_that_never_ends_costs_no_memory(log: Path) -> None:
    stream = Stream(str(log))
    for _ in range(50):
        append(log, "x" * 10_000)
        assert stream.read()[1] == []
    assert [len(line) for line in stream.read()[1]] == [LINE_CHARS]


def test_escapes_and_nuls_are_taken_out(log: Path) -> None:
    append(log, "\x1b[31mepoch\x1b[0m 3/4\0\0\n\x1b[A\x1b[2K\nx\n\x9b31my\x9b0m\n")
    assert Stream(str(log)).read()[1] == ["epoch 3/4", "x", "y"]


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Stream(str(tmp_path / "pipe")).read() == (False, [])
    assert Stream(str(tmp_path)).read() == (False, [])
    assert Stream("/dev/zero").read() == (False, [])
    assert Stream("a\0b").read() == (False, [])


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_however_a_text_arrives_its_lines_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    log = tmp_path_factory.mktemp("logs") / "log"
    text = b"".join(part.replace(b"\x1b", b"").decode("latin-1").encode("ascii", "replace") for part in parts)
    stream, found = Stream(str(log)), list[str]()
    log.touch()
    for start in range(0, len(text), 7):
        append(log, text[start : start + 7])
        found += stream.read()[1]
    found += stream.read(final=True)[1]
    log.write_bytes(text)
    assert found == Stream(str(log)).read(final=True)[1]


def test_a_metrics_file_is_read_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    file = MetricsFile(str(path), 0.0)
    assert file.read() is None
    path.write_text('{"acc": 1}')
    assert file.read() == b'{"acc": 1}'
    assert file.read() is None
    path.write_text('{"acc": 22}')
    assert file.read() == b'{"acc": 22}'


def test_a_metrics_file_of_an_earlier_attempt_is_not_this_ones(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text('{"acc": 1}')
    os.utime(path, (1000, 1000))
    assert MetricsFile(str(path), 2000.0).read() is None
    assert MetricsFile(str(path), 1001.0).read() is not None


def test_of_a_huge_metrics_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"acc": 1}\n')
    raw = MetricsFile(str(path), 0.0).read()
    assert raw is not None
    assert len(raw) == FILE_BYTES
    assert raw.endswith(b'\n{"acc": 1}\n')
