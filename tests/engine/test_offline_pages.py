"""What a deck that no engine runs tells a screen: the same as an engine would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.errors import UsageError
from tests.e2e.decks import Deck, deck_in
from tests.inside.engine import OfflineLook, RunOptions, open_offline
from tests.tui.read_only_rig import MIXED


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path) as deck:
        deck.write(MIXED)
        deck.run()
        yield deck


def ask(deck: Deck, op: str, **args: Any) -> Any:
    offline = open_offline(str(deck.folder / "tasks.toml"), RunOptions(), os.environ)
    return OfflineLook(offline, offline.file.path).page(op, args)


def test_a_timeline_is_told_without_an_engine(deck: Deck) -> None:
    told = ask(deck, "timeline")
    assert [(row["task"], row["kind"], row["run"]) for row in told["attempts"]] == [
        ("good", "ok", 1),
        ("bad", "exit", 1),
    ]
    assert sorted(row["gpus"][0] for row in told["attempts"]) == [0, 1]


def test_a_timeline_keeps_what_ran_under_names_that_the_file_no_longer_has(deck: Deck) -> None:
    before = ask(deck, "timeline")["attempts"]
    deck.write(MIXED.replace('"good"', '"fine"'))
    after = ask(deck, "timeline")["attempts"]
    assert sorted(after, key=lambda row: row["task"]) == sorted(before, key=lambda row: row["task"])


def test_gpus_that_nobody_lists_any_more_are_known_by_what_lies_beside_the_logs(deck: Deck) -> None:
    offline = open_offline(str(deck.folder / "tasks.toml"), RunOptions(), os.environ)
    offline.deck.gpus.clear()
    told = OfflineLook(offline, offline.file.path).page("timeline", {})
    assert sorted(row["gpus"][0] for row in told["attempts"]) == [0, 1]


def test_a_graph_is_told_without_an_engine(deck: Deck) -> None:
    told = ask(deck, "graph")
    assert [(box["entry"], box["counts"]) for box in told["boxes"]] == [
        ("good", {"succeeded": 1}), ("bad", {"failed": 1}), ("after-bad", {"blocked": 1})
    ]  # fmt: skip
    assert told["edges"] == [{"before": 1, "behind": 2, "kind": "needs"}]


def test_errors_are_told_without_an_engine(deck: Deck) -> None:
    told = ask(deck, "errors")
    assert [(row["task"], row["kind"]) for row in told["failures"]] == [("bad", "exit")]
    assert "KeyError: lr" in Path(told["failures"][0]["err"]).read_text()


def test_what_acts_is_refused_without_an_engine(deck: Deck) -> None:
    with pytest.raises(UsageError, match="no engine runs this deck"):
        ask(deck, "retry", tasks=["bad"])
