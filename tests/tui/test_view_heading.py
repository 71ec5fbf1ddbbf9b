"""The header's lines: what they say, and that they fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.protocol.messages import Counts
from tests.inside.tui import DeckModel, Link, LinkKind, Note, clock, heading, length, notes, plain
from tests.tui.table_rig import NOW_S, deck_of, head_of

COUNTS = Counts(total=300, waiting=20, queued=100, running=8, backoff=1, succeeded=150, cached=5, failed=3, blocked=13)


def texts(deck: DeckModel, width: int = 120, limit: int = 3) -> list[str]:
    return ["".join(text for text, _ in line) for line in heading(deck, width, NOW_S, notes=limit)]


def deck_with(**more: Any) -> DeckModel:
    return deck_of((), head=head_of(**{"counts": COUNTS, **more}))


def test_80_columns_tell_every_count() -> None:
    first = texts(deck_with(), 80)[0]
    assert [number for number in ("8", "100", "20", "1", "3", "13", "150", "5") if number not in first] == []


@pytest.mark.parametrize(
    ("more", "said", "tone"),
    [
        ({"paused": "paused by bob"}, "paused by bob; P goes on", "warn"),
        ({"paused": "bob needs the GPUs"}, "paused: bob needs the GPUs; P goes on", "warn"),
        ({"halted": "3 failed"}, "halted by 3 failed; P or a retry goes on", "bad"),
        ({"halted": "3 failed", "ended": True}, "halted by 3 failed; P goes on with what was left", "bad"),
        (
            {"paused": "paused", "barred": "the budget is used up", "spent": True},
            "paused; P goes on, once the budget has more",
            "warn",
        ),
        ({"halted": "3 failed", "ended": True, "counts": Counts(total=3, failed=3)}, "halted by 3 failed", "bad"),
        ({"unwritable": "no space left"}, "nothing starts, the journal cannot be written: no space left", "bad"),
        ({"barred": "nothing starts before 20:00"}, "nothing starts before 20:00", "warn"),
        ({"barred": "the budget is used up", "spent": True}, "the budget is used up; E edits the file", "warn"),
        ({"file_plan": "3 added"}, "the task file has changed: 3 added; a applies it", "running"),
        ({"file_problem": "line 3"}, "task file: line 3; the deck goes on as it was", "bad"),
        ({"changed": 9, "stale": 10}, "9 changed since they ran, 10 stale: R runs them again", "warn"),
        ({"changed": 1}, "1 changed since it ran: R runs it again", "warn"),
        ({"stale": 2}, "2 stale: R runs them again", "warn"),
        ({"rounds": ("round 1 closed by 1 failed: x",)}, "round 1 closed by 1 failed: x", "muted"),
    ],
)
def test_what_keeps_the_deck_from_going_on_is_told(more: dict[str, Any], said: str, tone: str) -> None:
    (text, shown), *_ = heading(deck_with(**more), 120, NOW_S, notes=3)[2]
    assert (text, shown) == (f"▎ {said}", tone)


def test_the_gravest_is_told_first_and_the_rest_is_counted() -> None:
    shown = texts(deck_with(paused="paused", file_plan="1 added", unwritable="full"), limit=1)
    assert len(shown) == 3
    assert "the journal cannot be written" in shown[2]
    assert shown[2].endswith("+2 more")


@pytest.mark.parametrize(
    ("kind", "said", "tone"),
    [
        ("live", "live", "muted"), ("restarting", "starting it again", "warn"), ("over", "read-only", "warn"),
        ("failed", "no engine", "bad"), ("connecting", "connecting", "muted"), ("silent", "no answer for", "bad"),
    ],
)  # fmt: skip
def test_the_link_is_told(kind: LinkKind, said: str, tone: str) -> None:
    deck = deck_with()
    deck.link = Link(kind)
    text, shown = heading(deck, 120, NOW_S, notes=3)[0][-1]
    assert (said in text, shown) == (True, tone)


@pytest.mark.parametrize(
    ("kind", "tone"), [("restarting", "warn"), ("silent", "bad"), ("over", "bad"), ("failed", "bad")]
)
def test_what_is_wrong_with_the_engine_is_a_note(kind: LinkKind, tone: str) -> None:
    deck = deck_with()
    deck.link = Link(kind, "the engine (pid 4711) is gone")
    (note,) = notes(deck)
    assert (note.text, note.tone) == ("the engine (pid 4711) is gone", tone)


def test_after_a_goodbye_the_key_that_starts_an_engine_stands_beside_its_words_and_what_files_tell_below() -> None:
    deck = deck_with()
    deck.link = Link("over", "the engine has ended: stopped\ntasks.toml is broken")
    assert texts(deck)[2:] == ["▎ the engine has ended: stopped; ^r starts it", "▎ tasks.toml is broken"]


def test_a_silent_engine_is_told_of_with_for_how_long_and_what_helps() -> None:
    deck = deck_with()
    deck.link = Link("silent", "engine 7 does not answer (state T): `kill -CONT 7` lets it go on", silent_s=12.0)
    shown = texts(deck)
    assert shown[0].endswith("no answer for 12s")
    assert shown[2] == "▎ engine 7 does not answer (state T): `kill -CONT 7` lets it go on"


def test_files_are_told_with_of_when_they_are_and_each_note_on_a_line() -> None:
    deck = deck_with(ended=True)
    deck.link = Link("files", "no engine runs this deck\nthe file is broken", read_only=True, as_of=NOW_S)
    shown = texts(deck)
    assert shown[0].endswith(f"read-only · state of {clock(NOW_S, NOW_S)}")
    assert shown[2:] == ["▎ no engine runs this deck", "▎ the file is broken"]


def test_a_read_only_screen_that_cannot_see_the_deck_offers_to_look_again() -> None:
    deck = deck_with()
    deck.link = Link("failed", "deck.db cannot be read", read_only=True)
    assert texts(deck)[2] == "▎ deck.db cannot be read; ^r looks again"


@pytest.mark.parametrize(
    ("link", "more", "remedy"),
    [
        (Link("failed", "engine 8123 has ended: " + "its tasks run on, " * 9), {}, "; ^r starts it"),
        (Link("live"), {"halted": "train-a, " * 20}, "; P or a retry goes on"),
        (Link("live"), {"file_plan": "3 added, " * 20}, "; a applies it"),
    ],
)
def test_what_helps_is_told_where_the_problem_is_cut(link: Link, more: dict[str, Any], remedy: str) -> None:
    deck = deck_with(**more)
    deck.link = link
    told = texts(deck, 80, 1)[2]
    assert told.endswith(f"…{remedy}")
    assert len(told) == 80


def test_80_columns_tell_every_count_of_a_deck_that_is_only_looked_at() -> None:
    deck = deck_with(ended=True)
    deck.link = Link("files", read_only=True, as_of=NOW_S)
    first = texts(deck, 80)[0]
    assert [part for part in ("●8", "○100", "◌20", "↻1", "✗3", "⊘13", "✓150", "=5") if part not in first] == []
    assert "read-only" in first


def test_before_the_first_picture_the_link_is_told_with_its_problem() -> None:
    deck = DeckModel()
    deck.link = Link("failed", "the deck is held by another host")
    assert [line for line in texts(deck) if "held by another host" in line]


def test_before_the_first_picture_a_long_problem_is_told_in_full() -> None:
    deck = DeckModel()
    problem = "engine 8123 holds the lock and does not answer (state D): gpudeck doctor tells more"
    deck.link = Link("failed", problem)
    told = texts(deck, 40, 1)[1:]
    assert " ".join(line.removeprefix("▎ ") for line in told) == f"{problem}; ^r starts it"
    assert max(map(len, told)) <= 40


def test_80_columns_tell_why_a_task_file_cannot_be_used() -> None:
    reason = 'tasks.toml:14: task "train": gpus must be at least 0, got -1'
    assert reason in texts(deck_with(file_problem=reason), 80)[2]


def test_a_paused_deck_promises_no_end() -> None:
    assert any("left" in text for text in texts(deck_with(eta_s=50.0), 120))
    assert not any("left" in text for text in texts(deck_with(paused="paused", eta_s=50.0), 120))


def test_tasks_that_nobody_has_measured_make_the_time_left_a_lower_bound() -> None:
    shown = texts(deck_with(eta_s=3 * 3600.0, unmeasured=2), 160)[1]
    assert "at least ~3h00m left" in shown
    assert "2 tasks not measured yet" in shown


@given(
    st.integers(1, 250),
    st.text(max_size=30),
    st.builds(Counts, total=st.integers(0, 10**6), running=st.integers(0, 99), failed=st.integers(0, 10**6)),
    st.none() | st.floats(),
)
def test_any_deck_fits_into_any_width(width: int, name: str, counts: Counts, eta_s: float | None) -> None:
    deck = deck_of((), head=head_of(deck=name, counts=counts, paused=name, eta_s=eta_s, simulated=True))
    assert max(length(line) for line in heading(deck, width, NOW_S)) <= max(width, 30)


def test_notes_are_one_line_each() -> None:
    deck = deck_with(file_problem="line 3:\n  bad\x1b[31m")
    assert notes(deck)[0][0] == "task file: line 3:   bad[31m; the deck goes on as it was"


def test_what_is_done_failed_stopped_running_and_to_do_has_a_glyph_each_in_the_bar() -> None:
    counts = Counts(total=10, queued=2, running=2, succeeded=2, failed=2, cancelled=2)
    bar = texts(deck_of((), head=head_of(counts=counts)), 100)[1].split("  ")[0]
    assert "".join(dict.fromkeys(bar)) == "━╳╌╍─"
    assert "".join(dict.fromkeys(plain(bar))) == "=x:>-"


def test_results_of_another_day_are_told_of_before_a_round_that_is_under_way() -> None:
    rounds = ("waits for round 0: a",)
    assert [note.tone for note in notes(deck_with(rounds=rounds, stale=1))] == ["warn", "muted"]


@pytest.mark.parametrize("link", [Link("live", read_only=True), Link("over")])
def test_where_nothing_can_be_asked_for_no_retry_of_stale_results_is_offered(link: Link) -> None:
    deck = deck_with(changed=2, stale=1)
    deck.link = link
    assert notes(deck) == [Note("2 changed since they ran, 1 stale", "warn")]


def test_a_round_that_is_under_way_is_no_warning_and_comes_after_one_that_a_failure_closes() -> None:
    rounds = ("waits for round 0: a", "round 1 closed by 1 failed and 2 blocked: b")
    assert notes(deck_with(rounds=rounds, shut_rounds=rounds[1:])) == [
        Note(rounds[1], "warn"),
        Note("the next round waits for round 0: a", "muted"),
    ]
