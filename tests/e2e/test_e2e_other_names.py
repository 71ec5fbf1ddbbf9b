"""One file under several names and profiles: their outputs lie in one place, and a success of one counts for all."""

from __future__ import annotations

import pytest

from tests.e2e.decks import Deck

HALF = """
    [deck]
    gpus = "sim:1"
    [profile.p.deck]
    halt = "never"
    [[task]]
    name = "train"
    command = "echo half >model.pt; exit {code}"
    outputs = ["model.pt"]
    [[task]]
    name = "eval"
    needs = ["train"]
    command = "cat model.pt"
"""
NAMES = {"none": (), "a name": ("--name", "b"), "a profile": ("--profile", "p")}


@pytest.mark.parametrize(("first", "second"), [("none", "a name"), ("a name", "none"), ("a name", "a profile")])
def test_what_a_failed_attempt_left_is_no_result_under_another_name(deck: Deck, first: str, second: str) -> None:
    deck.write(HALF.format(code=1))
    assert deck.run(*NAMES[first]).code == 1
    ran = deck.run(*NAMES[second])
    assert (ran.code, ran.states) == (1, {"train": "failed", "eval": "blocked"})
    assert "outputs of train do not count as done" in ran.notes


def test_a_success_under_another_name_is_not_repeated(deck: Deck) -> None:
    deck.write(HALF.format(code=0))
    assert deck.run("--name", "b").code == 0
    assert deck.run().states == {"train": "cached", "eval": "succeeded"}
