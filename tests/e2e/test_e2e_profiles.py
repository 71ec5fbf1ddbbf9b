"""Decks of one file under a profile or a name: what one of them left is no result of another."""

from __future__ import annotations

import pytest

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


def test_a_trial_does_not_write_over_a_result(deck: Deck) -> None:
    deck.write(TRAINING)
    assert deck.run().states == {"train": "succeeded"}
    assert deck.run("--profile", "smoke").states == {"train": "cached"}
    assert deck.lines("out/model") == ["90"]


@pytest.mark.parametrize("words", [(), ("--profile", "smoke")])
def test_a_profile_that_keeps_only_its_logs_apart_is_warned_of(deck: Deck, words: tuple[str, ...]) -> None:
    deck.write(TRAINING + '[profile.smoke.deck]\nlog_dir = "smoke"\n')
    said = "[profile.smoke] has a log_dir of its own, and does other work with the outputs of train: give it outputs"
    assert said in deck.command("check", *words).out
    deck.write(TRAINING.replace("out/model", "out/{epochs}") + '[profile.smoke.deck]\nlog_dir = "smoke"\n')
    assert said not in deck.command("check", *words).out


def test_other_outputs_of_a_profile_are_not_the_files_own(deck: Deck) -> None:
    deck.write(TRAINING.replace("out/model", "out/{epochs}"))
    assert deck.run("--profile", "smoke").code == 0
    (deck.folder / "out/90").write_text("from elsewhere")
    assert deck.run().states == {"train": "cached"}
