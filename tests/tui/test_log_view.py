"""The log view: keys, streams, searching, the mouse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.events import MouseScrollUp
from textual.widgets import Input

from tests.fakes.hostile_logs import HOSTILE_LINES, dangers
from tests.inside.tui import (
    BOTH,
    Frame,
    LogSource,
    LogView,
    divider_words,
    occurrences,
    search_words,
    status_words,
)
from tests.tui.log_rig import log_app, numbered, source


async def test_keys_move_through_the_log(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(1000)))
        for keys, first in (
            (("g",), "line 0"), (("space",), "line 22"), (("down", "j"), "line 24"), (("k",), "line 23"),
            (("b",), "line 1"),
            (("G",), "line 977"), (("up",), "line 976"), (("home",), "line 0"), (("end",), "line 977"),
        ):  # fmt: skip
            await rig.press(*keys)
            await rig.until(lambda wanted=first: rig.lines[0].rstrip(" │┃") == wanted)


async def test_growth_is_followed_until_the_reader_scrolls_up(tmp_path: Path) -> None:
    async with log_app() as rig:
        shown = source(tmp_path, numbered(100), running=True)
        await rig.show(shown)
        await rig.sees("line 99", "following")
        with open(shown.paths[0][1], "a") as log:
            log.write("something new\n")
        await rig.sees("something new")
        await rig.press("up")
        await rig.until(lambda: "following" not in rig.status)
        with open(shown.paths[0][1], "a") as log:
            log.write("even newer\n")
        await rig.until(lambda: rig.view.active.frame.size == os.path.getsize(shown.paths[0][1]))
        assert "even newer" not in rig.screen
        await rig.press("f")
        await rig.sees("even newer", "following")


@pytest.mark.parametrize(
    ("running", "out", "words"),
    [(False, None, "the file is not there"), (False, b"", "empty"), (True, b"", "empty so far")],
)
async def test_a_log_without_anything_says_why(running: bool, out: bytes | None, words: str, tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, out, running=running))
        await rig.sees(words)


async def test_without_a_source_there_is_no_log() -> None:
    async with log_app() as rig:
        await rig.show(None)
        await rig.sees("no log")


# -- streams ----------------------------------------------------------------------------------------------------------


async def test_a_stream_without_output_takes_no_room(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(500), b""))
        await rig.until(lambda: len(rig.streams) == 1)
        assert rig.streams[0].size.height == 22
        await rig.sees("── stderr  attempt-1.err  empty")


async def test_o_goes_from_both_to_stdout_to_stderr_and_back(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(9, "out"), numbered(9, "err")))
        seen: list[tuple[str, bool, bool]] = []
        for _ in range(4):
            await rig.until(lambda: all(stream.started for stream in rig.streams))
            await rig.pilot.pause()
            seen.append((rig.view.stream, "out 8" in rig.screen, "err 8" in rig.screen))
            await rig.press("o")
        assert seen == [(BOTH, True, True), ("stdout", True, False), ("stderr", False, True), (BOTH, True, True)]


async def test_keys_act_on_the_part_that_has_the_focus(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(500, "out"), numbered(500, "err")))
        await rig.press("tab", "g")
        await rig.sees("err 0", "out 499")
        await rig.sees("stderr")
        assert "stderr" in rig.status


async def test_a_stream_that_is_read_later_than_the_other_keeps_the_keys(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(500), numbered(500)))
        first = rig.streams[0]
        assert first.has_focus
        first.started = False
        first.frame = Frame()
        await rig.pilot.pause()
        assert first.display
        assert first.has_focus


async def test_another_attempt_has_the_keys_on_the_stream_that_the_status_names(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path / "a", numbered(500, "out"), numbered(500, "err"), attempts=(1, 2)))
        await rig.press("tab")
        rig.view.show(source(tmp_path / "b", numbered(50), numbered(50), attempt=2, attempts=(1, 2)))
        await rig.until(lambda: "stdout" in rig.status)
        assert rig.streams[0].has_focus


async def test_one_file_for_both_streams_says_so(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(5)))
        await rig.press("o")
        await rig.sees("stdout and stderr are merged")


# -- searching --------------------------------------------------------------------------------------------------------


async def test_a_search_from_the_end_goes_to_the_last_hit_and_both_keys_go_around(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"".join(numbered(1, f"hit-{n}") + numbered(300) for n in range(3))))
        await rig.search("HIT-")
        await rig.sees("hit-2 0", '"HIT-" 3/3')
        for key, number in (("N", 2), ("N", 1), ("N", 3), ("n", 1), ("n", 2)):
            await rig.press(key)
            await rig.sees(f"hit-{number - 1} 0", f'"HIT-" {number}/3')


async def test_a_search_from_the_middle_goes_on_downwards(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"".join(numbered(1, f"hit-{n}") + numbered(300) for n in range(3))))
        await rig.press("g", "space")
        await rig.until(lambda: rig.lines[0].startswith("line 21"))
        await rig.search("/^hit-\\d/")
        await rig.sees("hit-1 0", "2/3")


async def test_more_hits_than_are_kept_can_be_gone_through_from_anywhere(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(130_000, "hit")))
        await rig.search("hit")
        await rig.sees("/50,0", "+")
        await rig.until(lambda: "%" not in rig.status.partition('"hit"')[2])
        await rig.press("g", "n")
        await rig.sees('"hit" 1/50,000+')
        await rig.press("n")
        await rig.sees('"hit" 2/50,000+')
        rig.view.active.move(lambda view: view.seek_fraction(0.5))
        await rig.until(lambda: "hit 0" not in rig.screen)
        await rig.press("N")
        await rig.until(lambda: "?/" in rig.status and rig.view.active.marks.current > 400_000)


async def test_n_goes_on_from_what_is_seen(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"".join(numbered(1, f"hit-{n}") + numbered(300) for n in range(4))))
        await rig.search("hit-")
        await rig.sees("4/4")
        await rig.press("g")
        await rig.sees("hit-0 0")
        await rig.press("space", "n")
        await rig.sees("hit-1 0", "2/4")


async def test_no_expression_is_said_and_searches_nothing(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(10)))
        await rig.search("/(/")
        await rig.sees("no regular expression: ")


async def test_n_finds_what_was_written_after_the_search(tmp_path: Path) -> None:
    async with log_app() as rig:
        shown = source(tmp_path, b"needle 0\n" + numbered(100), running=True)
        await rig.show(shown)
        await rig.search("needle")
        await rig.sees('"needle" 1/1')
        with open(shown.paths[0][1], "a") as log:
            log.write("needle 1\n" + "more\n" * 100)
        await rig.until(lambda: rig.view.active.frame.size == os.path.getsize(shown.paths[0][1]))
        await rig.press("n")
        await rig.sees("needle 1", '"needle" 2/2')


async def test_x_goes_to_the_first_error_and_n_to_the_next(tmp_path: Path) -> None:
    async with log_app() as rig:
        log = (
            numbered(100)
            + b"Traceback (most recent call last):\n  File 1\nKeyError: 'a'\n"
            + numbered(100)
            + b"Killed\n"
        )
        await rig.show(source(tmp_path, log))
        await rig.press("x")
        await rig.sees("Traceback (most recent", "errors 1/3")
        await rig.press("n", "n")
        await rig.sees("Killed", "errors 3/3")


TRACE = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nKeyError: "a"\n'


async def test_a_search_goes_to_the_stream_that_has_the_hit_and_the_status_speaks_for_it(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(300), numbered(300, "cleanup")))
        await rig.search("cleanup 77")
        await rig.until(lambda: rig.status.endswith('"cleanup 77" 1/1'))
        assert "stderr" in rig.status
        assert rig.streams[1].has_focus


async def test_the_first_error_is_gone_to_in_the_stream_that_has_one(tmp_path: Path) -> None:
    async with log_app() as rig:
        shown = source(tmp_path, numbered(300), numbered(30) + TRACE + numbered(300, "cleanup"))
        await rig.show(shown)
        await rig.press("x")
        await rig.sees("Traceback (most recent", "stderr", "errors 1/2")
        await rig.press("v")
        await rig.until(lambda: rig.app.wanted)
        (wanted,) = rig.app.wanted
        assert isinstance(wanted, LogView.PagerWanted)
        assert wanted.path == shown.paths[1][1]


async def test_a_search_with_hits_in_both_streams_stays_where_the_keys_are_and_leaves_the_other_alone(
    tmp_path: Path,
) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"needle\n" + numbered(300), b"needle\n" + numbered(300, "err") + b"needle\n"))
        await rig.search("needle")
        await rig.until(lambda: rig.status.endswith('"needle" 1/1, 2 in stderr'))
        assert rig.streams[0].has_focus
        assert "err 299" in rig.screen


async def test_n_goes_on_in_the_other_stream_behind_the_last_hit_of_one(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"needle\n" + numbered(300), b"needle\n" + numbered(300) + b"needle\n"))
        await rig.search("needle")
        await rig.until(lambda: rig.status.endswith('"needle" 1/1, 2 in stderr'))
        for key, words in (
            ("n", '"needle" 1/2, 1 in stdout'),
            ("n", '"needle" 2/2, 1 in stdout'),
            ("n", '"needle" 1/1, 2 in stderr'),
            ("N", '"needle" 2/2, 1 in stdout'),
        ):
            await rig.until(lambda: "…" not in rig.status)
            await rig.press(key)
            await rig.until(lambda words=words: rig.status.endswith(words))


async def test_only_what_no_stream_has_is_not_found(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(30), numbered(30)))
        await rig.search("nothing")
        await rig.until(lambda: rig.status.endswith('"nothing" not found'))
        assert rig.streams[0].has_focus


async def test_a_stream_without_the_hit_says_where_it_is(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(300), numbered(300, "cleanup")))
        await rig.search("cleanup 77")
        await rig.until(lambda: rig.status.endswith("1/1"))
        await rig.press("shift+tab")
        await rig.until(lambda: rig.status.endswith('"cleanup 77" not here, 1 in stderr'))


@pytest.mark.parametrize(
    ("frame", "told"), [(Frame(size=2048), "2.0 KiB ─"), (Frame(), "empty ─"), (Frame(missing=True), "not there ─")]
)
def test_the_line_above_the_second_stream_tells_what_is_in_it(frame: Frame, told: str) -> None:
    words = divider_words("stderr", "/logs/t/1.err", frame, 60)
    assert words.startswith("── stderr  1.err  ")
    assert (told in words, len(words)) == (True, 60)


@pytest.mark.parametrize("width", [24, 30, 40, 60, 80])
@pytest.mark.parametrize("end", ['"cleanup" not found', '"cleanup" 12/34'])
def test_a_narrow_status_keeps_what_the_search_has_found(width: int, end: str) -> None:
    shown = LogSource("train-resnet-50-lr-0.1-seed-12-and-more", 12, (1, 12), (), running=True)
    words = status_words(shown, "stderr", Frame(size=10**9, follow=True, wrap=True), end, width)

    assert len(words) <= width
    assert words.endswith(end[-9:])
    assert "stderr" in words


def test_what_is_searched_for_is_cut_before_what_was_found() -> None:
    words = search_words('"learning rate 0.125"', "", [("stderr", 12, False)], 32)

    assert len(words) <= 32
    assert words.endswith(" not here, 12 in stderr")


def test_what_matters_least_leaves_the_status_first() -> None:
    shown = LogSource("train", 2, (1, 2), (), running=True)
    frame = Frame(size=2048, follow=True)

    assert [status_words(shown, "stdout", frame, "", width) for width in (80, 40, 24)] == [
        "train  attempt 2 of 2  stdout  2.0 KiB  100%  following",
        "train  attempt 2 of 2  stdout  following",
        "train  stdout",
    ]


async def test_escape_clears_the_search_then_belongs_to_the_screen(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(10)))
        await rig.press("slash", "x", "escape")
        assert not rig.app.query_one(Input).display
        await rig.search("line 3")
        await rig.sees('"line 3" 1/1')
        await rig.press("escape")
        await rig.until(lambda: "line 3" not in rig.status)
        assert rig.app.escaped == 0
        await rig.press("escape")
        assert rig.app.escaped == 1


async def test_keys_typed_into_a_search_do_nothing_else(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(10)))
        await rig.press("slash", *"wofxvnN", "left_square_bracket")
        assert (rig.view.wrap, rig.view.stream, rig.app.wanted) == (False, BOTH, [])
        assert rig.app.query_one(Input).value == "wofxvnN["


def test_marks_of_a_text_do_not_overlap() -> None:
    assert occurrences("aXa xa XAXA", "xa") == [(1, 3), (4, 6), (7, 9), (9, 11)]
    assert occurrences("İx", "x") == [(1, 2)]


async def test_a_view_that_is_told_what_to_show_before_it_is_on_the_screen_shows_it(tmp_path: Path) -> None:
    async with log_app() as rig:
        view = LogView()
        view.show(source(tmp_path, numbered(7)))
        await rig.view.remove()
        await rig.app.mount(view)
        await rig.sees("line 6")


async def test_a_log_that_is_cut_during_a_search_leaves_a_search_that_ends(tmp_path: Path) -> None:
    async with log_app() as rig:
        shown = source(tmp_path, numbered(100_000), running=True)
        await rig.show(shown)
        await rig.search("9999")
        os.truncate(shown.paths[0][1], 7)
        await rig.until(lambda: rig.view.active.frame.size == 7)
        await rig.press("n", "N", "x", "n", "N")
        await rig.sees("errors not found", "line 0")


# -- the rest ---------------------------------------------------------------------------------------------------------


async def test_brackets_ask_for_other_attempts_that_exist(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(3), attempt=4, attempts=(1, 2, 4)))
        await rig.press("left_square_bracket")
        await rig.until(lambda: rig.app.wanted)
        (wanted,) = rig.app.wanted
        assert isinstance(wanted, LogView.AttemptWanted)
        assert (wanted.task, wanted.attempt) == ("t", 2)
        await rig.press("right_square_bracket")
        await rig.sees("that is the newest attempt")


async def test_long_lines_are_cut_scrolled_sideways_and_wrapped(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"begin " + b"." * 200 + b" end\n"))
        assert "end" not in rig.screen
        await rig.press(*["right"] * 30)
        await rig.sees(" end")
        await rig.press("w")
        await rig.sees("begin", " end", "wrapped")
        await rig.press("w")
        await rig.until(lambda: "wrapped" not in rig.screen)


async def test_the_wheel_and_the_scroll_bar_move(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(1000)))
        await rig.sees("line 999")
        rig.view.active.post_message(MouseScrollUp(rig.view.active, 5, 5, 0, -1, 0, False, False, False))
        await rig.until(lambda: "line 999" not in rig.screen)
        await rig.pilot.mouse_down(rig.view.active, offset=(79, 0))
        await rig.pilot.mouse_up(rig.view.active, offset=(79, 0))
        await rig.sees("line 0")


async def test_selected_text_is_copied_without_colours(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"\x1b[31mone\x1b[0m two\nthree\n"))
        await rig.sees("three")
        await rig.pilot.mouse_down(rig.view.active, offset=(4, 0))
        await rig.pilot.hover(rig.view.active, offset=(3, 1))
        await rig.pilot.mouse_up(rig.view.active, offset=(3, 1))
        await rig.until(lambda: rig.app.screen.get_selected_text() in ("two\nthr", "two\nthre"))


async def test_selected_text_can_be_read(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"one \x1b[31mtwo\x1b[0m\n"))
        await rig.sees("one two")
        plain = rig.colours(0)
        rig.view.active.text_select_all()
        await rig.until(lambda: rig.colours(0) != plain)
        assert all(ink != paper for ink, paper in rig.colours(0)), rig.colours(0)


async def test_growth_does_not_move_what_is_being_selected(tmp_path: Path) -> None:
    async with log_app() as rig:
        shown = source(tmp_path, numbered(100), running=True)
        await rig.show(shown)
        await rig.sees("line 99")
        rig.view.active.text_select_all()
        with open(shown.paths[0][1], "a") as log:
            log.write("new\n")
        await rig.until(lambda: rig.view.active.held)
        assert "new" not in rig.screen
        rig.app.screen.clear_selection()
        await rig.sees("new")


async def test_a_move_ends_the_selection_whose_text_it_moves_away(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, numbered(100)))
        await rig.sees("line 99")
        rig.view.active.text_select_all()
        await rig.press("g")
        await rig.sees("line 0")
        assert rig.app.screen.get_selected_text() is None


@pytest.mark.parametrize("wrapped", [False, True])
async def test_nothing_of_a_hostile_log_is_drawn(wrapped: bool, tmp_path: Path) -> None:
    async with log_app() as rig:
        log = b"\n".join(HOSTILE_LINES.values())
        await rig.show(source(tmp_path, log, log, task="[red]\x1b[2Jtitle[/]\u202e", running=True))
        if wrapped:
            await rig.press("w")
        await rig.press("g")
        for _ in range(6):
            top = rig.view.active.frame.top
            await rig.press("space")
            await rig.until(lambda before=top: rig.view.active.frame.top > before or rig.view.active.frame.at_end)
            drawn = rig.app.screen._compositor.render_strips(rig.app.size)
            assert [bad for strip in drawn for segment in strip for bad in dangers(segment.text)] == []
            assert all(not segment.control for strip in drawn for segment in strip)
        assert "[red]title[/]" in rig.status


async def test_another_attempt_begins_at_its_own_end_without_the_search(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path / "a", numbered(500)))
        await rig.search("line 3")
        await rig.press("g")
        await rig.show(source(tmp_path / "b", numbered(600), task="u"))
        await rig.sees("line 599")
        assert "line 3" not in rig.status


async def test_a_compact_view_shows_ends_alone(tmp_path: Path) -> None:
    async with log_app(size=(60, 8), compact=True) as rig:
        await rig.show(source(tmp_path, numbered(100), b""))
        await rig.until(lambda: rig.lines[-1].rstrip() == "line 99")
        await rig.show(source(tmp_path / "b", b"", numbered(100, "err"), task="u"))
        await rig.until(lambda: rig.lines[-1].rstrip() == "err 99" and rig.lines[0].startswith("err"))


async def test_a_stream_that_has_not_been_read_yet_takes_no_room(tmp_path: Path) -> None:
    async with log_app(size=(60, 12), compact=True) as rig:
        await rig.show(source(tmp_path / "a", b"out 1\n", b""))
        rig.view.show(source(tmp_path / "b", b"out 2\n", b"", task="u"))
        assert len(rig.streams) == 1


async def test_what_the_next_attempt_writes_into_a_stream_that_is_hidden_for_want_of_rows_is_shown(
    tmp_path: Path,
) -> None:
    async with log_app(size=(60, 12), compact=True) as rig:
        await rig.show(source(tmp_path / "a", b"out 1\n", b"err 1\n"))
        await rig.sees("out 1", "err 1")
        await rig.show(source(tmp_path / "b", b"out 2\n", b"", task="u", running=True))
        await rig.until(lambda: "out 2" in rig.screen and len(rig.streams) == 1)
        (tmp_path / "b" / "attempt-1.err").write_bytes(b"err 2\n")
        await rig.sees("out 2", "err 2")
