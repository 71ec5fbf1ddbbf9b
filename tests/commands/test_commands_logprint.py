"""What logs become on their way to a terminal, and where their last lines begin."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.inside.commands import BLOCK_BYTES, LINE_CHARS, Lines, LogTail

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
PIECES = [b"\x1b", b"[", b"]0;", b"31", b"8", b"m", b"\x07", b"\r", b"\n", b"\xc2\x9b", b"\x00", b"a", b"\xff", b"\t"]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4)).map(b"".join)


def all_lines(data: bytes, *, colour: bool) -> list[str]:
    lines = Lines(colour=colour)
    return [*lines.feed(data), lines.end()]


@given(BYTES)
def test_nothing_but_colours_and_text_comes_through(data: bytes) -> None:
    text = COLOUR.sub("", "".join(all_lines(data, colour=True)))
    assert {unicodedata.category(char) for char in text}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})


@given(BYTES)
def test_without_a_terminal_no_escape_comes_through(data: bytes) -> None:
    assert not any("\x1b" in line or "\x9b" in line for line in all_lines(data, colour=False))


@given(BYTES, st.integers(1, 5))
def test_lines_do_not_depend_on_how_the_bytes_come(data: bytes, step: int) -> None:
    lines = Lines(colour=True)
    found = [line for start in range(0, len(data), step) for line in lines.feed(data[start : start + step])]
    assert [*found, lines.end()] == all_lines(data, colour=True)


def test_a_colour_ends_with_its_line() -> None:
    assert all_lines(b"\x1b[31mred\nplain\n", colour=True) == ["\x1b[31mred\x1b[0m", "plain", ""]


def test_text_that_a_log_hides_is_shown() -> None:
    assert all_lines(b"\x1b[8mhidden\n", colour=True) == ["hidden\x1b[0m", ""]


def test_a_colour_of_256_is_no_concealment() -> None:
    assert all_lines(b"\x1b[38;5;8mgrey\n", colour=True)[0] == "\x1b[38;5;8mgrey\x1b[0m"


def test_a_line_without_end_takes_no_memory_without_end() -> None:
    lines = Lines(colour=False)
    for _ in range(50):
        assert lines.feed(b"x" * LINE_CHARS) == []
    assert len(lines.rest()) <= LINE_CHARS


def test_a_progress_bar_without_line_ends_shows_its_newest_frame() -> None:
    lines = Lines(colour=False)
    for number in range(20_000):
        lines.feed(b"\rstep %d" % number)
    assert (lines.rest(), lines.moving) == ("step 19999", True)


@given(st.lists(st.integers(0, 40)), st.integers(0, 60), st.booleans(), st.sampled_from([0, BLOCK_BYTES - 20]))
def test_the_last_lines_are_found(lengths: list[int], wanted: int, ended: bool, padding: int) -> None:
    lines = [b"p" * padding, *(b"x" * length for length in lengths)]
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    expected = data.splitlines(keepends=True)[-wanted:] if wanted else []
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert read_last(Path(file.name), wanted) == b"".join(expected)


def read_last(path: Path, lines: int) -> bytes:
    log = LogTail(str(path))
    log.seek_last(lines)
    found = b""
    while data := log.read():
        found += data
    log.close()
    return found


def test_a_log_that_is_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long first text\n")
    log = LogTail(str(path))
    log.read()
    path.write_bytes(b"short\n")
    assert log.read() == b"short\n"
    log.close()


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    assert not LogTail(str(tmp_path)).is_there
    assert not LogTail(str(tmp_path / "none")).is_there
