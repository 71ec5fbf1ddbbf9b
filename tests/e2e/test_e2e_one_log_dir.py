"""Decks that have one log folder, and what others put there: no log and no record is ever written over."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.decks import Deck

WHO = """
[deck]
gpus = "none"
log_dir = "logs"

[[task]]
name = "a"
command = "echo $WHO; exit 1"
"""


def records(deck: Deck, task: str) -> dict[str, dict[str, object]]:
    """attempt-N.json by the first line of the log beside it."""
    found = sorted(Path(deck.folder, "logs", task).glob("attempt-*.json"))
    return {path.with_suffix(".log").read_text().strip(): json.loads(path.read_text()) for path in found}


def test_two_decks_with_one_log_folder_keep_their_logs_apart(deck: Deck) -> None:
    deck.write(WHO)
    for who, options in (("A1", ()), ("B1", ("--name", "B")), ("A2", ()), ("B2", ("--name", "B"))):
        assert deck.run(*options, env={"WHO": who}).code == 1
    assert [deck.lines(f"logs/a/attempt-{number}.log") for number in (1, 2, 3, 4)] == [["A1"], ["B1"], ["A2"], ["B2"]]
    assert {who: record["attempt"] for who, record in records(deck, "a").items()} == {
        "A1": 1,
        "B1": 2,
        "A2": 3,
        "B2": 4,
    }


def test_of_two_decks_at_once_each_has_the_logs_of_its_own_attempts(deck: Deck) -> None:
    deck.write(WHO.replace('"a"', '"a-{i}"') + "matrix.i = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\nretries = 1\nbackoff = 0\n")
    names = ("A", "B")
    engines = [deck.start("--name", who, env={"WHO": who}) for who in names]
    assert [engine.finish().code for engine in engines] == [1, 1]
    said = [path.read_text() for path in Path(deck.folder, "logs").glob("a-*/attempt-*.log")]
    assert sorted(said) == ["A\n"] * 20 + ["B\n"] * 20


def test_a_record_that_somebody_put_into_the_log_folder_is_left_as_it_is(deck: Deck) -> None:
    deck.write(WHO)
    assert deck.run(env={"WHO": "mine"}).code == 1
    Path(deck.folder, "logs/a/attempt-2.json").write_text("precious")
    ran = deck.run(env={"WHO": "mine again"})
    assert Path(deck.folder, "logs/a/attempt-2.json").read_text() == "precious"
    assert deck.lines("logs/a/attempt-3.log") == ["mine again"]
    assert "files of its number are in its log folder" in ran.notes
    assert "it goes on as attempt 3" in ran.notes
