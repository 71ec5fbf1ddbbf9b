"""The part of a log that is seen, against the same made of all lines at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.hostile_logs import dangers, hostile_file
from tests.fakes.opened_logs import closing_logs, opened
from tests.inside.tui import MOST_ROWS, Breaks, Frame, LogFile, Viewport

MOST = 32
"""Bytes of a line in these tests; in earnest it is megabytes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(autouse=True)
def files_are_closed() -> Iterator[None]:
    with closing_logs():
        yield


def lines_one_by_one(raw: bytes) -> list[int]:
    """Where lines begin by the rule: after a line break, and at multiples of `MOST` without one in as many bytes."""
    begins = {0, *(at + 1 for at, byte in enumerate(raw) if byte == 10)}
    begins |= {edge for edge in range(MOST, len(raw) + 1, MOST) if b"\n" not in raw[edge - MOST : edge]}
    return sorted(at for at in begins if at < len(raw))


logs = st.lists(st.sampled_from([b"\n", b"a", b"bc" * 10, b"\n\n", b"x" * 31, b"x" * 32, b"x" * 33, b"y" * 100])).map(
    b"".join
)


@given(logs)
def test_lines_are_the_same_from_both_directions(folder: Path, raw: bytes) -> None:
    path = folder / "log"
    path.write_bytes(raw)
    file = opened(path)
    breaks = Breaks(file, MOST)
    begins = lines_one_by_one(raw)
    for offset in range(len(raw)):
        assert breaks.start(offset) == max(at for at in begins if at <= offset)
    for begin, following in pairwise([*begins, len(raw)]):
        end, found = breaks.end(begin)
        assert (found, raw[end:following] in (b"", b"\n")) == (following, True)
    file.close()


def rows_of(frame: Frame) -> list[str]:
    return [row.text for row in frame.rows]


def texts(raw: bytes) -> list[str]:
    lines = raw.decode().split("\n")
    return lines[:-1] if not lines[-1] else lines


def a_log(path: Path, count: int = 100) -> LogFile:
    path.write_text("".join(f"line {number}\n" for number in range(count)))
    return opened(path)


def a_view(file: LogFile, width: int = 20, height: int = 5) -> Viewport:
    view = Viewport(file)
    view.resize(width, height)
    return view


Move = tuple[str, int]
moves = st.lists(
    st.one_of(
        st.tuples(st.just("scroll"), st.integers(-12, 12)),
        st.tuples(st.just("page"), st.sampled_from([-1, 1])),
        st.tuples(st.just("home"), st.just(0)),
        st.tuples(st.just("end"), st.just(0)),
        st.tuples(st.just("seek"), st.integers(0, 400)),
        st.tuples(st.just("resize"), st.integers(1, 9)),
        st.tuples(st.just("wrap"), st.integers(0, 1)),
    ),
    max_size=12,
)


def do(view: Viewport, move: Move) -> None:
    name, number = move
    calls: dict[str, Callable[[], None]] = {
        "scroll": lambda: view.scroll(number),
        "page": lambda: view.page(number),
        "home": view.home,
        "end": view.end,
        "seek": lambda: view.seek(number),
        "resize": lambda: view.resize(7, number),
        "wrap": lambda: view.wrap(bool(number)),
    }
    calls[name]()


@given(st.lists(st.text("ab漢", max_size=20), max_size=30), st.booleans(), moves)
def test_a_frame_is_always_a_stretch_of_the_log_and_never_less_than_fits(
    folder: Path, lines: list[str], ended: bool, moves: list[Move]
) -> None:
    raw = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    path = folder / "moved"
    path.write_bytes(raw)
    file = opened(path)
    view = a_view(file, 7, 4)
    height = 4
    for move in moves:
        do(view, move)
        height = move[1] if move[0] == "resize" else height
        frame = view.frame()
        everything = Viewport(file)
        everything.resize(7 if frame.wrap else 1000, 1000)
        everything.wrap(frame.wrap)
        whole = [(row.line, row.part, row.text) for row in everything.frame().rows]
        seen = [(row.line, row.part, row.text) for row in frame.rows]
        assert len(seen) == min(height, len(whole))
        assert seen == (whole[whole.index(seen[0]) :][: len(seen)] if seen else [])
        assert frame.at_end == (not seen or seen[-1] == whole[-1])
        assert frame.at_start == (not seen or seen[0] == whole[0])
    file.close()


def test_what_is_added_moves_nothing_when_it_is_not_followed(tmp_path: Path) -> None:
    file = a_log(tmp_path / "log")
    view = a_view(file)
    view.seek(300)
    before = rows_of(view.frame())
    with (tmp_path / "log").open("a") as log:
        log.write("more\n" * 50)
    file.look()
    assert rows_of(view.frame()) == before


def test_scrolling_up_stops_following_and_down_to_the_end_begins_again(tmp_path: Path) -> None:
    view = a_view(a_log(tmp_path / "log"))
    view.end()
    view.scroll(-1)
    assert not view.frame().follow
    view.scroll(5)
    assert view.frame().follow


def test_a_file_that_was_cut_is_shown_from_its_beginning(tmp_path: Path) -> None:
    file = a_log(tmp_path / "log")
    view = a_view(file)
    view.seek(500)
    view.frame()
    (tmp_path / "log").write_text("anew\n")
    file.look()
    assert rows_of(view.frame()) == ["anew"]


def test_nothing_that_was_known_of_a_replaced_file_counts(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 1_000_000)
    file = opened(tmp_path / "log")
    view = a_view(file)
    assert len(view.frame().rows) == 1
    (tmp_path / "other").write_bytes(b"a new line\n" * 90_000)
    os.replace(tmp_path / "other", tmp_path / "log")
    file.look()
    view.end()
    assert rows_of(view.frame()) == ["a new line"] * 5


def test_a_removed_file_can_still_be_read_and_is_said_to_be_missing(tmp_path: Path) -> None:
    file = a_log(tmp_path / "log")
    (tmp_path / "log").unlink()
    assert file.look()
    frame = a_view(file).frame()
    assert (frame.missing, rows_of(frame)[0]) == (True, "line 0")


@pytest.mark.parametrize("kind", ["folder", "fifo", "link to itself", "NUL in its name"])
def test_what_is_no_file_is_told_in_words(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to itself":
        path.symlink_to(path)
    name = f"{tmp_path}/a\0b" if kind == "NUL in its name" else str(path)
    file = LogFile(name)
    file.look()
    assert (bool(file.problem), a_view(file).frame().rows) == (True, ())


def test_a_very_long_line_is_cut_and_says_how_much_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before\n" + b"z" * 10_000_000 + b"\nafter\n")
    rows = a_view(opened(path)).frame().rows
    assert [row.text[:6] for row in rows] == ["before", "zzzzzz", "after"]
    assert rows[1].text.endswith(" … 9.5 MiB more")
    assert len(rows[1].text) < 9000


def test_a_bar_without_line_breaks_shows_its_last_frame_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    frames = b"".join(b"\r%7d/1000000 [====>    ]" % number for number in range(40_000))
    path.write_bytes(frames)
    file = opened(path)
    view = a_view(file)
    assert rows_of(view.frame()) == ["  39999/1000000 [====>    ]"]
    with path.open("ab") as log:
        log.write(b"\r  40000/1000000 [====>    ]")
    file.look()
    assert rows_of(view.frame()) == ["  40000/1000000 [====>    ]"]


def test_wide_characters_are_never_cut_by_wrapping(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("漢字漢字漢字漢\n")
    view = a_view(opened(path), 5, 10)
    view.wrap(True)
    assert rows_of(view.frame()) == ["漢字", "漢字", "漢字", "漢"]


def test_wrapped_lines_are_scrolled_by_rows_also_from_the_middle_of_one_and_beyond_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{line}aa{line}bb{line}cc\n" for line in range(9)))
    rows = [f"{line}{part}" for line in range(9) for part in ("aa", "bb", "cc")]
    view = a_view(opened(path), 3, 4)
    view.wrap(True)
    at = 0
    for step in (1, 6, 3, -2, -5):
        view.scroll(step)
        at += step
        assert rows_of(view.frame()) == rows[at : at + 4]


def test_rows_are_counted_only_as_far_as_it_matters(tmp_path: Path) -> None:
    assert a_view(a_log(tmp_path / "short", 7)).frame().total == 7
    assert a_view(a_log(tmp_path / "long", 5000)).frame().total == MOST_ROWS


def test_a_few_lines_of_many_rows_are_counted_again_once_they_are_few_rows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 1000 + "\nend\n")
    view = a_view(opened(path), 5, 10)
    view.wrap(True)
    assert view.frame().total == MOST_ROWS
    view.wrap(False)
    assert view.frame().total == 2


def test_every_page_of_a_hostile_file_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(hostile_file())
    view = a_view(opened(path), 60, 40)
    seen = 0
    for wrap in (False, True):
        view.wrap(wrap)
        view.home()
        while not (frame := view.frame()).at_end:
            assert [danger for row in frame.rows for danger in dangers(row.text)] == []
            view.page(1)
            seen += 1
    assert seen > 5


def test_both_ends_of_a_file_without_any_line_break_are_reached(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(range(11, 256)) * 200_000)
    view = a_view(opened(path))
    view.end()
    assert len(view.frame().rows) == 3
    view.home()
    assert view.frame().at_start


def test_a_look_at_a_file_servers_log_opens_it_anew_and_sees_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\n")
    file = LogFile(str(path))
    looks = [file.look(afresh=True), file.look(afresh=True)]
    path.write_text("a\nb\n")
    looks.append(file.look(afresh=True))
    path.unlink()
    looks.append(file.look(afresh=True))
    assert (looks, file.size, file.missing) == ([True, False, True, True], 4, True)
    file.close()


def test_what_gpudeck_says_at_the_end_of_a_wrapped_line_is_told_from_what_the_line_says(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"z" * 10_000_000 + b"\n")
    view = a_view(opened(path), 7, 10_000)
    view.wrap(True)
    rows = view.frame().rows
    assert "".join(row.text[len(row.text) - row.note :] for row in rows if row.note) == " … 9.5 MiB more"
