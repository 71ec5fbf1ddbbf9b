"""An engine that is started quietly, seen by its clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.live_deck import LiveDeck, live_deck

DECK = """
[deck]
gpus = "sim:1"
[[task]]
name = "t-{i}"
matrix.i = [1, 2]
command = "echo {i} >>ran"
"""

BEGUN = DECK.replace("[[task]]", '[[task]]\nname = "first"\ncommand = "read _ <gate"\n[[task]]')


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, DECK) as deck:
        yield deck


def test_looking_on_begins_nothing_and_acting_does(deck: LiveDeck) -> None:
    deck.write(BEGUN)
    os.mkfifo(deck.folder / "gate")
    first = deck.start()
    with deck.client() as client:
        deck.until_states(client, first="running")
        client.request("stop")
    deck.until(lambda: first.poll() is not None, "the first engine ends")
    (deck.folder / "gate").write_text("go\n")
    deck.tune("engine.quiet", AFTER_S=0.2)
    deck.start("--purpose", "act")
    with deck.client() as starter:
        with deck.client() as other:
            other.wait_for_picture()
            other.request("status")
        why = starter.request("explain", tasks=["t-1"])["t-1"][0]["text"]
        assert why == "the command that started the engine has still to say what it came for"
        assert deck.facts().count("AttemptStarting") == 1
        starter.request("hold", tasks=["t-1"])
        deck.until_states(starter, **{"t-2": "succeeded"})
    assert deck.text("ran") == "2\n"
