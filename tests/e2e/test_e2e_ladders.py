"""More time after an end by timeout, on real processes: the checkpoint is gone on from, whichever engine looks."""

from __future__ import annotations

from tests.e2e.decks import Deck, until

TRAINING = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "train"
    command = "touch checkpoint; read _ <never"
    resume_command = "echo $GPUDECK_ATTEMPT $CUDA_VISIBLE_DEVICES $MORE >>resumed; read _ <gate"
    resume_when = "checkpoint"
    timeout = "300ms"
    grace = "0s"
    on_timeout = [{ timeout = "100s", gpus = 2, env = { MORE = "time" } }]
"""


def test_a_training_goes_on_from_its_checkpoint_with_more_time_and_more_gpus(deck: Deck) -> None:
    deck.write(TRAINING)
    deck.gate("never"), deck.gate("gate").let()
    ran = deck.run()
    assert [(end["reason"], end["next"]) for end in ran.ended("train")] == [
        ("timeout after 0.3 s", "queued"),
        ("ok", "succeeded"),
    ]
    assert deck.lines("resumed") == ["2 0,1 time"]
    assert "  on_timeout rung 1: MORE=time  gpus 1 → 2  timeout 0s → 1m40s" in deck.command("show", "train").out


def test_an_engine_that_is_killed_leaves_an_attempt_the_time_of_its_rung(deck: Deck) -> None:
    deck.write(TRAINING)
    gate = deck.gate("gate")
    deck.gate("never")
    engine = deck.start()
    until(lambda: deck.lines("resumed"))
    engine.event("task_started", attempt=2, timeout_rung=1)
    engine.kill()
    engine = deck.start()
    engine.event("deck_opened", continued=True)
    gate.let()
    ran = engine.finish()
    assert ran.states == {"train": "succeeded"}
    assert deck.lines("resumed") == ["2 0,1 time"]
