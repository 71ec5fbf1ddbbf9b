"""Log tails: whatever a file holds, what comes out is short, printable lines."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import lines_of, printable, read_tail

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_a_missing_file_has_an_empty_tail(tmp_path):
    assert read_tail(str(tmp_path / "none.log")) == b""


def test_a_folder_has_an_empty_tail(tmp_path):
    assert read_tail(str(tmp_path)) == b""


def test_a_name_that_cannot_be_a_file_has_an_empty_tail():
    assert read_tail("a\0b") == b""


def test_a_named_pipe_nobody_writes_to_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_tail(str(tmp_path / "pipe")) == b""


def test_a_short_file_is_read_whole(tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\ntwo")
    assert read_tail(str(tmp_path / "a.log")) == b"one\ntwo"


def test_the_tail_of_a_long_file_begins_with_a_whole_line(tmp_path):
    (tmp_path / "a.log").write_bytes(b"".join(b"line %d\n" % number for number in range(10_000)))
    assert read_tail(str(tmp_path / "a.log"), 100).startswith(b"line 99")


def test_a_tail_within_one_huge_line_is_kept(tmp_path):
    (tmp_path / "a.log").write_bytes(b"x" * 10_000_000)
    assert read_tail(str(tmp_path / "a.log")) == b"x" * 65536


def test_a_file_truncated_while_open_gives_what_is_left(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n" * 100_000)
    os.truncate(path, 4)
    assert read_tail(str(path)) == b"x\nx\n"


def test_no_bytes_are_no_lines():
    assert lines_of(b"") == []


def test_of_progress_frames_only_the_last_is_kept():
    raw = b"".join(b"\r %d%%|##  | %d/100" % (done, done) for done in range(100)) + b"\nend\n"
    assert lines_of(raw) == [" 99%|##  | 99/100", "end"]


def test_a_frame_that_only_clears_the_line_does_not_hide_the_one_before():
    assert lines_of(b"\r10%\r20%\r\x1b[K\n") == ["20%"]


def test_dos_line_ends_are_line_ends():
    assert lines_of(b"one\r\ntwo\r\n") == ["one", "two"]


def test_a_ten_megabyte_line_is_cut_to_4096_characters():
    (line,) = lines_of(b"x" * 10_000_000)
    assert len(line) == 4096
    assert line.endswith("…")


def test_invalid_utf8_is_replaced_not_refused():
    assert lines_of(b"ok \xff\xfe\n") == ["ok \ufffd\ufffd"]


def test_unicode_line_separators_do_not_make_lines():
    assert lines_of("a\u2028b\x0bc\x85d\n".encode()) == ["abcd"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[m", "x"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0;0;0\x1b\\sixel", "sixel"),
        ("\x1b]52;c;ZXZpbA==\x07clipboard", "clipboard"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("\x9b31mc1", "c1"),
        ("\x9d0;title\x9ctext", "text"),
        ("bell\x07 back\x08space", "bell backspace"),
        ("unfinished \x1b[", "unfinished "),
        ("unfinished \x1b]0;title", "unfinished "),
        ("evil\u202etxt.exe", "eviltxt.exe"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("plain äöü 漢字 🏖️", "plain äöü 漢字 🏖️"),
    ],
)
def test_nothing_that_a_terminal_would_act_on_is_left(raw, shown):
    assert printable(raw) == shown


@given(st.text())
def test_printable_text_has_no_control_characters(text):
    assert not CONTROL.search(printable(text))


@given(st.binary())
def test_lines_of_any_bytes_are_printable(raw):
    assert not any(CONTROL.search(line) for line in lines_of(raw))


def test_lines_of_random_megabytes_are_printable():
    assert not any(CONTROL.search(line) for line in lines_of(os.urandom(65536)))
