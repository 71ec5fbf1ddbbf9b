"""Escapes in logs: colours are kept, nothing else reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.hostile_logs import HOSTILE_LINES, dangers
from tests.inside.tui import PLAIN, Sgr, Span, changed, cleaned, last_frame, shown_text


def looks(text: str) -> list[tuple[str, Sgr]]:
    """Each coloured piece."""
    shown, spans = cleaned(text)
    return [(shown[start:end], sgr) for start, end, sgr in spans]


@pytest.mark.parametrize("name", HOSTILE_LINES)
def test_nothing_of_a_hostile_line_reaches_the_terminal(name: str) -> None:
    assert dangers(shown_text(HOSTILE_LINES[name])) == []


@pytest.mark.parametrize(
    "name", [name for name in HOSTILE_LINES if "invisible" not in name and "never ended" not in name]
)
def test_what_stands_around_an_escape_is_kept(name: str) -> None:
    assert "after" in shown_text(HOSTILE_LINES[name])


@given(
    st.lists(
        st.sampled_from(
            [
                b"\x1b", b"[", b"]", b"31", b";", b"m", b"\x9b", b"\xc2\x9b", b"\x07", b"\\", b"P", b"\t", b"\r", b"a",
                b"\xff", b"\0", b"38:2", b"5", "\u202e".encode(), b"\x1b[", b"\x1b]",
            ]
        )
        | st.binary(max_size=4)
    )
)  # fmt: skip
def test_whatever_the_bytes_what_is_shown_has_no_controls(pieces: list[bytes]) -> None:
    raw = b"".join(pieces).replace(b"\n", b"")
    assert dangers(shown_text(raw)) == []


@given(st.text())
def test_whatever_the_text_the_spans_lie_in_it_and_do_not_meet(text: str) -> None:
    shown, spans = cleaned(text.replace("a", "\x1b[31m").replace("b", "\x1b["))
    edges = [at for start, end, _ in spans for at in (start, end)]
    assert edges == sorted(edges)
    assert all(0 <= at <= len(shown) for at in edges)


def test_colours_of_all_kinds_become_spans() -> None:
    assert looks("\x1b[31ma\x1b[0;1;94mb\x1b[38;5;208mc\x1b[48;2;1;2;3md\x1b[me") == [
        ("a", Sgr(fg=1)),
        ("b", Sgr(fg=12, bold=True)),
        ("c", Sgr(fg=208, bold=True)),
        ("d", Sgr(fg=208, bg=(1, 2, 3), bold=True)),
    ]


def test_colours_written_with_colons_are_understood() -> None:
    assert changed(PLAIN, "38:2::255:0:9;4:3") == Sgr(fg=(255, 0, 9), underline=True)
    assert changed(PLAIN, "38:2:255:0:9") == Sgr(fg=(255, 0, 9))
    assert changed(PLAIN, "48:5:7") == Sgr(bg=7)


def test_each_look_can_be_ended_by_itself() -> None:
    everything = changed(PLAIN, "1;2;3;4;7;9;31;42")
    assert changed(everything, "22;23;24;27;29;39;49") == PLAIN


@pytest.mark.parametrize(
    "parameters", ["38", "38;5", "38;2;1", "38;5;256", "38;2;1;2;256", "8", "5", "58;5;1", "", "0", ":", "::;;:"]
)
def test_parameters_that_mean_nothing_change_nothing(parameters: str) -> None:
    assert changed(PLAIN, parameters) == PLAIN


def test_nothing_is_hidden() -> None:
    assert cleaned("\x1b[8msecret") == ("secret", ())


def test_a_line_begins_without_the_colours_of_the_one_before() -> None:
    cleaned("\x1b[31mred")
    assert cleaned("plain") == ("plain", ())


def test_tabs_reach_the_next_multiple_of_eight_whatever_the_colours() -> None:
    assert cleaned("ab\tc")[0] == "ab      c"
    assert cleaned("a\x1b[31mb\tc\x1b[0m")[0] == "ab      c"
    assert cleaned("a\x1b[31mb\tc\x1b[0m")[1] == (Span(1, 9, Sgr(fg=1)),)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("1%\r2%\r3%", "3%"), ("1%\r2%\r", "2%"), ("text\r\n"[:-1], "text"), ("done\r\x1b[2K\r  \r", "done"),
        ("\r\r\r", ""), ("plain", "plain"),
    ],
)  # fmt: skip
def test_of_frames_the_last_one_that_shows_something_counts(raw: str, shown: str) -> None:
    assert last_frame(raw) == shown
