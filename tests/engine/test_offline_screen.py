"""What a screen gets of a deck that is only looked at."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gpudeck.engine.errors import UsageError
from tests.e2e.decks import Deck, deck_in, until
from tests.inside.engine import Command, OfflineScreen, Place, can_be_shown
from tests.tui.read_only_rig import MIXED


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path) as deck:
        deck.write(MIXED)
        deck.run()
        yield deck


def place_of(deck: Deck) -> Place:
    return Place.of(Command("deck", file=str(deck.folder / "tasks.toml")))


def look(deck: Deck) -> OfflineScreen:
    return OfflineScreen(place_of(deck))


def test_it_knows_when_it_is_outdated(deck: Deck) -> None:
    screen = look(deck)
    assert not screen.outdated()
    deck.run()
    assert screen.outdated()


def test_a_task_that_ends_while_no_engine_runs_makes_it_outdated(tmp_path: Path) -> None:
    with deck_in(tmp_path) as deck:
        deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "read _ <gate"\n')
        gate = deck.gate()
        engine = deck.start()
        engine.started("t")
        engine.kill()
        screen = look(deck)
        assert [row.started is None for row in screen.rows()] == [False]
        gate.let(1)
        until(screen.outdated)
        until(lambda: [row.started is None for row in look(deck).rows()] == [True])


def test_a_task_that_is_killed_with_what_watches_it_makes_it_outdated(tmp_path: Path) -> None:
    with deck_in(tmp_path) as deck:
        deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "sleep 1000"\n')
        engine = deck.start()
        watcher = psutil.Process(engine.event("task_started", task="t")["pid"])
        engine.kill()
        screen = look(deck)
        for each in (watcher, *watcher.children(recursive=True)):
            each.kill()
        until(screen.outdated)


def test_an_edited_task_file_makes_it_outdated(deck: Deck) -> None:
    screen = look(deck)
    os.unlink(deck.folder / "tasks.toml")
    assert screen.outdated()
    assert not look(deck).outdated()


def test_gpus_that_the_file_does_not_tell_are_known_by_their_index_and_said_not_to_be_read(deck: Deck) -> None:
    deck.write(MIXED.replace('"sim:2"', '"none"'))
    screen = look(deck)
    assert [row.gpus for row in screen.rows()] == [(0,), (1,), ()]
    assert [(gpu.index, gpu.note) for gpu in screen.gpus()] == [(0, "no engine reads it"), (1, "no engine reads it")]
    assert screen.answer("show", {"tasks": ["bad"]})[0]["attempts"][0]["gpus"] == [1]


def test_a_task_that_waits_says_for_what(deck: Deck) -> None:
    assert "bad" in " ".join(look(deck).answer("show", {"tasks": ["after-bad"]})[0]["waits_for"])


def test_it_is_as_old_as_the_newest_fact(deck: Deck) -> None:
    ended = look(deck).answer("timeline", {})["attempts"][-1]["end"]
    assert look(deck).as_of >= ended - 0.001


def test_what_was_never_started_is_of_no_time(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    assert OfflineScreen(Place.of(Command("deck", file=str(tmp_path / "tasks.toml")))).as_of == 0.0


def test_a_damaged_journal_is_told_of(deck: Deck) -> None:
    db = sqlite3.connect(deck.folder / ".gpudeck/tasks/deck.db")
    db.execute("UPDATE facts SET crc = crc + 1 WHERE seq = 3")
    db.commit()
    db.close()
    assert "deck.db is damaged" in look(deck).notes()[-1]


@pytest.mark.parametrize(("op", "args"), [("show", {"tasks": ["none"]}), ("retry", {"tasks": ["bad"]})])
def test_what_it_cannot_answer_is_refused(deck: Deck, op: str, args: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError):
        look(deck).answer(op, args)


def test_only_a_deck_with_a_journal_can_be_shown_where_it_cannot_be_opened(deck: Deck, tmp_path: Path) -> None:
    assert can_be_shown(place_of(deck))
    assert not can_be_shown(Place.of(Command("deck", file=str(tmp_path / "other.toml"))))
