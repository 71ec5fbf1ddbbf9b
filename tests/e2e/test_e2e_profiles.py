"""Decks of one file under a profile or a name: what one of them left is no result of another."""

from __future__ import annotations

from tests.e2e.decks import Deck

TRAINING = """
[deck]
gpus = "sim:1"
[vars]
epochs = 90
[profile.smoke.vars]
epochs = 1
[[task]]
name = "train"
command = "mkdir -p out; echo {epochs} >out/model"
outputs = ["out/model"]
"""


def test_what_a_trial_under_a_profile_left_is_not_taken_for_the_result(deck: Deck) -> None:
    deck.write(TRAINING)
    assert deck.run("--profile", "smoke").states == {"train": "succeeded"}
    planned = deck.command("plan").out
    ran = deck.run()
    assert ran.states == {"train": "succeeded"}
    assert deck.lines("out/model") == ["90"]
    assert "tasks@smoke has run it as other work" in ran.notes
    assert "1 of 1 tasks would run" in planned


def test_the_same_work_done_under_a_name_is_done(deck: Deck) -> None:
    deck.write(TRAINING)
    assert deck.run("--name", "night").states == {"train": "succeeded"}
    assert deck.run().states == {"train": "cached"}


def test_a_trial_does_not_write_over_a_result(deck: Deck) -> None:
    deck.write(TRAINING)
    assert deck.run().states == {"train": "succeeded"}
    assert deck.run("--profile", "smoke").states == {"train": "cached"}
    assert deck.lines("out/model") == ["90"]
