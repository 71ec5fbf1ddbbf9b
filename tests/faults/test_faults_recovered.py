"""What a damaged journal has forgotten is told by attempt-N.json and the records."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptEnded, AttemptRunning, AttemptStarting, RunStarted
from gpudeck.engine.core.recorded import Recorded, recorded
from tests.e2e.decks import Deck, until
from tests.inside.faults import read_record, recover

DECK = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "good-{i}"
    matrix.i = [0, 1]
    command = "echo {i} >>ran"
    [[task]]
    name = "bad"
    command = "echo bad >>ran; exit 4"
"""
GATED = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = "echo $$ >>pids; read _ <gate; exit 3"
    [[task]]
    name = "later"
    command = "echo later >>ran"
"""


def damage(deck: Deck) -> None:
    path = deck.folder / ".gpudeck/tasks/deck.db"
    path.write_bytes(b"x" * path.stat().st_size)


def ends(deck: Deck) -> list[tuple[str, int, int | None]]:
    found = [fact for fact in deck.facts() if isinstance(fact, AttemptEnded)]
    return [(fact.task, fact.attempt, fact.outcome.exit_code) for fact in found]


def test_results_of_a_lost_journal_are_known_from_the_logs(deck: Deck) -> None:
    deck.write(DECK)
    assert deck.run().code == 1
    damage(deck)
    ran = deck.run()
    assert ran.started == ["bad"]
    assert ran.states == {"good-0": "cached", "good-1": "cached", "bad": "failed"}
    assert sorted(ends(deck)) == [("bad", 1, 4), ("bad", 2, 4), ("good-0", 1, 0), ("good-1", 1, 0)]
    assert "damaged" in ran.notes
    assert "3 results" in ran.notes


def test_why_an_attempt_failed_is_told_as_before_the_journal_was_lost(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "none"
        [[task]]
        name = "raises"
        command = ["python3", "-c", "raise ValueError(1)"]
        [[task]]
        name = "killed"
        command = ["sh", "-c", "kill -9 $$"]
        [[task]]
        name = "full"
        command = ["python3", "-c", "raise RuntimeError('CUDA error: out of memory')"]
        [[task]]
        name = "slow"
        command = ["sleep", "60"]
        timeout = "0.2s"
        [[task]]
        name = "makes-nothing"
        command = ["true"]
        outputs = ["lacking"]
    """)
    deck.run()
    attempts = deck.folder / ".gpudeck/tasks/attempts"
    outcomes = {fact.task: fact.outcome for fact in deck.facts() if isinstance(fact, AttemptEnded)}
    assert len(outcomes) == 5
    found, _ = recover(
        str(deck.folder / "logs"), set(os.listdir(attempts)), deck.folder.name, Recorded(), boot_id="", results_too=True
    )
    assert {fact.task: fact.outcome for fact in found if isinstance(fact, AttemptEnded)} == outcomes


def test_a_result_of_other_work_is_none(deck: Deck) -> None:
    deck.write(DECK)
    deck.run()
    damage(deck)
    deck.write(DECK.replace("echo {i}", "echo new-{i}"))
    assert sorted(deck.run().started) == ["bad", "good-0", "good-1"]


def test_what_ended_after_the_journal_was_lost_has_its_true_code(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("pids") and read_record(str(deck.folder / "logs/long/attempt-1.json")))
    engine.kill()
    damage(deck)
    gate.let()
    until(lambda: not deck.living())
    ran = deck.run()
    assert [end["exit_code"] for end in ran.ended("long")] == [3]
    assert ends(deck) == [("long", 1, 3), ("later", 1, 0)]
    assert len(deck.lines("pids")) == 1


def test_results_of_another_deck_in_the_same_log_folder_do_not_count(deck: Deck) -> None:
    deck.write(DECK.replace("[deck]", '[deck]\nname = "one"'))
    deck.run()
    damage(deck)
    deck.write(DECK.replace("[deck]", '[deck]\nname = "two"'))
    assert len(deck.run().started) == 3


def test_an_attempt_that_nothing_tells_of_is_named_and_not_started_beside_itself(deck: Deck) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("pids"))
    engine.kill()
    damage(deck)
    record = deck.folder / "logs/long/attempt-1.json"
    record.unlink(missing_ok=True)
    ran = deck.run()
    assert ran.code == 2
    assert "still runs" in ran.err
    gate.let()
    until(lambda: not deck.living())
    gate.let()
    assert deck.run().ended("long")[0]["attempt"] == 2


@pytest.mark.parametrize("cut_short", [False, True])
def test_a_start_that_the_journal_kept_is_ended_by_what_the_logs_tell(deck: Deck, cut_short: bool) -> None:
    deck.write(GATED)
    gate = deck.gate()
    engine = deck.start()
    until(lambda: deck.lines("pids") and read_record(str(deck.folder / "logs/long/attempt-1.json")))
    until(lambda: isinstance(deck.facts()[-1], AttemptRunning))
    engine.kill()
    gate.let()
    until(lambda: not deck.living())
    path = deck.folder / "logs/long/attempt-1.json"
    told = json.loads(path.read_text())
    end = {"at": told["start"], "kind": "exit", "exit_code": 3, "signal": None, "duration_s": 0.1}
    path.write_text(json.dumps({**told, "end": end}))
    os.unlink(deck.folder / ".gpudeck/tasks/attempts" / told["token"])
    (forget_last_fact if cut_short else damage_last_fact)(deck)
    ran = deck.run()
    assert ("damaged" in ran.notes) is not cut_short
    assert ends(deck)[0] == ("long", 1, 3)
    assert json.loads(path.read_text())["end"]["exit_code"] == 3
    assert len(deck.lines("pids")) == 1


def test_an_attempt_before_the_newest_one_is_over_even_where_nobody_knows_how(tmp_path: Path) -> None:
    folder = tmp_path / "logs/t"
    folder.mkdir(parents=True)
    for number, end in ((1, None), (2, {"at": "", "kind": "ok", "exit_code": 0, "signal": None, "duration_s": 1.0})):
        told = {
            "task": "t",
            "attempt": number,
            "deck": "d",
            "fingerprint": "f",
            "start": "",
            "token": f"token-{number}",
        }
        (folder / f"attempt-{number}.json").write_text(json.dumps(told | ({"end": end} if end else {})))
    kept = [RunStarted(1, "seed", 0.0, 0.0), AttemptStarting("t", 1, "token-1", "f", (), 1, 0, 0.0, 0.0)]
    found = recover(str(tmp_path / "logs"), (), "d", recorded(kept), boot_id="boot", results_too=True)[0]
    assert [(type(fact), fact.attempt) for fact in found if isinstance(fact, (AttemptEnded, AttemptStarting))] == [
        (AttemptEnded, 1),
        (AttemptStarting, 2),
        (AttemptEnded, 2),
    ]


def forget_last_fact(deck: Deck) -> None:
    """As SQLite does with a -wal that was cut short."""
    with contextlib.closing(sqlite3.connect(deck.folder / ".gpudeck/tasks/deck.db")) as db, db:
        db.execute("DELETE FROM facts WHERE seq = (SELECT max(seq) FROM facts)")


def damage_last_fact(deck: Deck) -> None:
    with contextlib.closing(sqlite3.connect(deck.folder / ".gpudeck/tasks/deck.db")) as db, db:
        db.execute("UPDATE facts SET crc = crc + 1 WHERE seq = (SELECT max(seq) FROM facts)")
