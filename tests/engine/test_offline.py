"""A deck is read without an engine: nothing is written, whoever runs it meanwhile."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import threading
from pathlib import Path
from zlib import crc32

import pytest

from gpudeck.engine.core.phases import Blocked, Failed, Running, Starting, Succeeded, Waiting
from gpudeck.engine.errors import EngineUnavailableError, TaskFileError
from tests.e2e.decks import Deck, Engine, deck_in, until
from tests.inside.engine import DeckLock, OfflineDeck, RunOptions, SqliteJournal, held_by, open_offline, tasks_meant
from tests.rigs.desk import Desk, at_desk

MIXED = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "good"
    command = "echo fine"
    [[task]]
    name = "bad"
    command = "exit 3"
    [[task]]
    name = "after-bad"
    needs = ["bad"]
    command = "true"
"""
GATED = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "read _ <gate"
    [[task]]
    name = "second"
    command = "true"
"""

CIRCLE = """
    [[task]]
    name = "first"
    needs = ["second"]
    command = "true"
    [[task]]
    name = "second"
    round = 1
    command = "true"
"""


@pytest.fixture(scope="module")
def mixed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with deck_in(tmp_path_factory.mktemp("mixed")) as deck:
        deck.write(MIXED)
        deck.run()
        return deck.folder


@pytest.fixture
def mixed(deck: Deck, mixed_once: Path) -> Deck:
    """A deck that has run: its tasks are good, bad and blocked."""
    shutil.copytree(mixed_once, deck.folder, symlinks=True, dirs_exist_ok=True)
    return deck


def kill(deck: Deck, engine: Engine) -> None:
    """End the engine; what it was about to start has its lock until the exec, and such a deck would count as run."""
    engine.kill()
    until(lambda: held_by(str(deck.folder / ".gpudeck/tasks")) is None)


def look(deck: Deck, given: RunOptions | None = None) -> OfflineDeck:
    return open_offline(str(deck.folder / "tasks.toml"), given or RunOptions(), os.environ)


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every file below, with what changes when it is written."""
    found = (path for path in folder.rglob("*"))
    return {str(path): (os.lstat(path).st_ino, os.lstat(path).st_mtime_ns, os.lstat(path).st_size) for path in found}


def phase(offline: OfflineDeck, task: str) -> type:
    return type(offline.deck.by_name[task].phase)


def test_a_deck_that_never_ran_has_its_tasks_and_no_state(deck: Deck) -> None:
    deck.write(MIXED)
    before = tree(deck.folder)
    offline = look(deck)
    assert offline.state is None
    assert offline.holder is None
    assert {type(task.phase) for task in offline.deck.tasks} == {Waiting}
    assert tree(deck.folder) == before


def test_a_run_that_ended_is_seen_as_it_ended(mixed: Deck) -> None:
    offline = look(mixed)
    assert phase(offline, "good") is Succeeded
    assert phase(offline, "bad") is Failed
    assert phase(offline, "after-bad") is Blocked
    assert not offline.unfinished


def test_looking_changes_no_file_after_an_engine_was_killed(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    kill(deck, engine)
    before = tree(deck.folder)
    offline = look(deck)
    assert tree(deck.folder) == before
    assert offline.unfinished
    assert phase(offline, "first") in (Starting, Running)
    gate.let()


def test_looking_makes_no_file_where_the_index_of_the_wal_is_gone(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    kill(deck, engine)
    (deck.folder / ".gpudeck/tasks/deck.db-shm").unlink()
    before = tree(deck.folder)
    offline = look(deck)
    assert tree(deck.folder) == before
    assert phase(offline, "first") in (Starting, Running)
    gate.let()


def test_the_record_tells_what_became_of_an_attempt_whose_engine_was_killed(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    engine.kill()
    offline = look(deck)
    (token,) = offline.journal.lasting_tokens
    until(lambda: look(deck).standing(token) == "runs")
    gate.let()
    until(lambda: look(deck).standing(token) == "ended")


def test_what_became_of_an_attempt_is_told_when_its_task_has_left_the_file(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    engine.kill()
    deck.write(GATED.replace('"first"', '"other"'))
    offline = look(deck)
    (token,) = offline.journal.lasting_tokens
    until(lambda: look(deck).standing(token) == "runs")
    gate.let()


def test_a_live_engine_is_named_and_not_disturbed(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    for _ in range(20):
        offline = look(deck)
        assert offline.holder is not None
        assert offline.holder.pid == engine.pid
    gate.let()
    assert engine.finish().code == 0
    assert look(deck).holder is None


def test_an_engine_starts_while_somebody_keeps_looking(deck: Deck) -> None:
    deck.write(GATED.replace("read _ <gate", "true"))
    engine = deck.start()
    while engine.process.poll() is None:
        look(deck)
    assert engine.finish().code == 0


def test_gpus_of_an_attempt_come_from_its_json(mixed: Deck) -> None:
    offline = look(mixed)
    assert offline.gpus_of(offline.deck.by_name["good"]) == (0,)
    assert offline.gpus_of(offline.deck.by_name["after-bad"]) == ()


def test_a_selection_by_state_means_what_it_meant_when_the_run_began(mixed: Deck) -> None:
    mixed.write(MIXED.replace("exit 3", "true"))
    mixed.run("--only", "state:failed")
    offline = look(mixed)
    assert [task.name for task in offline.deck.tasks if task.selected] == ["bad"]
    assert phase(offline, "bad") is Succeeded


def test_with_a_broken_file_all_tasks_are_shown_as_the_deck_took_them_last(mixed: Deck) -> None:
    mixed.write(MIXED + '[[task]]\nname = "open\n')
    offline = look(mixed)
    assert list(offline.deck.by_name) == ["good", "bad", "after-bad"]
    assert (phase(offline, "bad"), phase(offline, "after-bad")) == (Failed, Blocked)
    assert "a quote is not closed" in offline.broken
    assert "as the deck took them last" in offline.warnings[-1]


@at_desk(GATED)
async def test_with_a_broken_file_tasks_that_were_cancelled_are_shown_too_and_none_as_changed(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    await desk.command("cancel", "second")
    await desk.ends("first")
    await desk.leave()
    desk.write(GATED + "[[task]\n")
    rows = await desk.rows()
    assert [(row["name"], row["state"], row["changed"]) for row in rows.values()] == [
        ("first", "succeeded", False), ("second", "cancelled", False),
    ]  # fmt: skip


def test_a_broken_file_still_tells_where_state_and_logs_lie(deck: Deck) -> None:
    text = MIXED.replace('gpus = "sim:1"', 'gpus = "sim:1"\n    state_dir = "st"\n    log_dir = "out"')
    deck.write(text)
    deck.run()
    deck.write(text + "[[task]\n")
    offline = look(deck)
    assert offline.logs.paths("bad", 1, False).out == f"{deck.folder}/out/bad/attempt-1.log"
    assert phase(offline, "good") is Succeeded


def test_a_broken_file_of_a_deck_without_state_is_a_mistake_of_the_file(deck: Deck) -> None:
    deck.write("[[task]\n")
    with pytest.raises(TaskFileError):
        look(deck)


def test_a_deck_whose_rounds_have_become_a_circle_is_shown_also_when_nothing_of_it_is_on_disk_yet(mixed: Deck) -> None:
    """An engine that is killed before its first commit leaves a journal without facts."""
    mixed.write(CIRCLE)
    ran = look(mixed)
    assert (list(ran.deck.by_name), "circle" in ran.broken) == (["good", "bad", "after-bad"], True)
    for path in (mixed.folder / ".gpudeck" / "tasks").glob("deck.db*"):
        path.unlink()
    SqliteJournal.open(str(mixed.folder / ".gpudeck" / "tasks" / "deck.db")).close()
    begun = look(mixed)
    assert ([len(task.ended) for task in begun.deck.tasks], "circle" in begun.broken) == ([0, 0, 0], True)


def test_of_a_file_that_is_gone_the_deck_is_shown_as_it_took_it_last(mixed: Deck) -> None:
    (mixed.folder / "tasks.toml").unlink()
    offline = look(mixed)
    assert phase(offline, "good") is Succeeded
    assert "no such file" in offline.broken


def test_tasks_that_left_the_file_are_named(mixed: Deck) -> None:
    mixed.write(MIXED.replace('name = "good"', 'name = "better"'))
    assert look(mixed).gone == ["good"]


def test_a_damaged_journal_shows_what_is_sound(mixed: Deck) -> None:
    db = sqlite3.connect(mixed.folder / ".gpudeck/tasks/deck.db")
    db.execute("UPDATE facts SET crc = crc + 1 WHERE seq = (SELECT max(seq) FROM facts WHERE kind = 'AttemptEnded')")
    db.commit()
    db.close()
    before = tree(mixed.folder)
    offline = look(mixed)
    assert any("is damaged" in line for line in offline.warnings)
    assert offline.deck.known
    assert tree(mixed.folder) == before


def test_of_a_damaged_journal_it_is_told_how_much_is_sound(mixed: Deck) -> None:
    db = sqlite3.connect(mixed.folder / ".gpudeck/tasks/deck.db")
    for seq, sound in ((3, "its first 2 facts tell"), (2, "its first fact tells")):
        db.execute("UPDATE facts SET crc = crc + 1 WHERE seq = ?", (seq,))
        db.commit()
        assert look(mixed).warnings[0].endswith(f": shown is what {sound}")
    db.close()


def test_a_journal_that_is_no_database_shows_the_file_alone(mixed: Deck) -> None:
    (mixed.folder / ".gpudeck/tasks/deck.db").write_bytes(b"x" * 5000)
    offline = look(mixed)
    assert any("file is not a database" in line for line in offline.warnings)
    assert offline.deck.by_name["good"].attempts == 1


def test_a_newer_journal_is_refused_in_words(mixed: Deck) -> None:
    db = sqlite3.connect(mixed.folder / ".gpudeck/tasks/deck.db")
    db.execute("PRAGMA user_version = 77")
    db.close()
    with pytest.raises(EngineUnavailableError, match="a newer gpudeck"):
        look(mixed)


def test_a_fact_of_a_kind_that_only_a_newer_version_knows_is_refused_in_words(mixed: Deck) -> None:
    db = sqlite3.connect(mixed.folder / ".gpudeck/tasks/deck.db")
    seq = db.execute("SELECT max(seq) FROM facts").fetchone()[0] + 1
    crc = crc32(b"x", (crc32(b"Teleported 1") + seq) & 0xFFFFFFFF)
    db.execute("INSERT INTO facts VALUES (?, 'Teleported', 1, ?, ?)", (seq, b"x", crc))
    db.commit()
    db.close()
    with pytest.raises(EngineUnavailableError, match="look with the gpudeck that wrote it"):
        look(mixed)


def test_an_engine_that_begins_waits_out_a_look(deck: Deck) -> None:
    folder = deck.folder / "state"
    folder.mkdir()
    DeckLock.acquire(str(folder)).release()
    fd = os.open(folder / "lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    threading.Timer(0.1, os.close, (fd,)).start()
    DeckLock.acquire(str(folder)).release()


def test_an_engine_that_is_frozen_is_still_the_holder(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    engine.signal(signal.SIGSTOP)
    offline = look(deck)
    engine.signal(signal.SIGCONT)
    gate.let()
    assert offline.holder is not None
    assert engine.finish().code == 0


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("state:blocked", ["after-bad"]),
        ("reason:exit", ["bad"]),
        ("gpu:0 state:succeeded", ["good"]),
        ("*bad", ["bad", "after-bad"]),
    ],
)
def test_tasks_are_selected_by_how_they_stand(mixed: Deck, selector: str, names: list[str]) -> None:
    assert [task.name for task in tasks_meant(look(mixed), [selector])] == names
