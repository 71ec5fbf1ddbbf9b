"""Starting a deck again: what is done stays done, and what is not runs."""

from __future__ import annotations

import pytest

from tests.e2e.decks import Deck, until

COUNTED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "good"
    command = "echo good >>ran; echo {word} >good.out"
    outputs = ["good.out"]
    [[task]]
    name = "bad"
    command = "echo bad >>ran; test -e mended"
    [[task]]
    name = "after-good"
    needs = ["good"]
    command = "echo after-good >>ran"
    [vars]
    word = "a"
"""
WRITES = """
[[task]]
name = "{name}"
command = "echo {word} >model.pt; exit {code}"
outputs = ["model.pt"]
"""


def test_what_succeeded_is_cached_and_what_failed_runs_again(deck: Deck) -> None:
    deck.write(COUNTED)
    deck.run()
    (deck.folder / "mended").touch()
    ran = deck.run()
    assert ran.states == {"good": "cached", "bad": "succeeded", "after-good": "cached"}
    assert ran.code == 0
    assert sorted(deck.lines("ran")) == ["after-good", "bad", "bad", "good"]


def test_a_changed_command_runs_again_and_so_does_what_needs_it(deck: Deck) -> None:
    deck.write(COUNTED)
    (deck.folder / "mended").touch()
    deck.run()
    ran = deck.run("--set", "word=b")
    assert ran.states == {"good": "succeeded", "bad": "cached", "after-good": "succeeded"}
    assert ran.started == ["good", "after-good"]
    assert deck.lines("good.out") == ["b"]


def test_a_task_waits_while_what_it_was_before_still_writes_its_output(deck: Deck) -> None:
    deck.write(WRITES.format(name="old", word="old; read _ <gate", code=0).replace(" >model", "; echo old >model"))
    gate = deck.gate()
    first = deck.start()
    first.started("old")
    first.kill()
    deck.write(WRITES.format(name="new", word="new", code=0) + WRITES.format(name="other", word="x", code=0))
    text = deck.text("tasks.toml")
    deck.write(text[: text.rindex("outputs")])
    second = deck.start()
    second.ended("other")
    assert "waits for old, which writes model.pt, too" in deck.command("explain", "new").out
    gate.let()
    assert second.finish().states["new"] == "succeeded"
    assert deck.text("model.pt") == "new\n"


@pytest.mark.parametrize("code", [0, 1])
def test_a_task_that_is_renamed_and_changed_is_not_done_by_the_output_of_before(deck: Deck, code: int) -> None:
    deck.write(WRITES.format(name="old", word="old", code=code))
    assert deck.run().code == code
    deck.write(WRITES.format(name="new", word="new", code=0))
    assert deck.command("plan").out.splitlines()[1].startswith("new ")
    ran = deck.run()
    assert (ran.states, deck.text("model.pt")) == ({"new": "succeeded"}, "new\n")
    assert "outputs of new do not count as done: old has run it" in ran.notes
    assert deck.run().states == {"new": "cached"}
    deck.write(WRITES.format(name="old", word="old", code=0))
    assert deck.run().states == {"old": "succeeded"}
    assert deck.text("model.pt") == "old\n"


def test_two_tasks_that_name_the_same_output_are_done_once_both_have_succeeded(deck: Deck) -> None:
    deck.write(WRITES.format(name="a", word="a", code=0) + WRITES.format(name="b", word="b", code=0))
    assert deck.run().states == {"a": "succeeded", "b": "succeeded"}
    assert deck.run().states == {"a": "cached", "b": "cached"}


def test_a_cancelled_task_runs_again_only_when_told_so(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "first"
        command = "read _ <gate"
        [[task]]
        name = "second"
        command = "echo second >>ran"
    """)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    assert deck.command("cancel", "second").code == 0
    gate.let()
    engine.finish()
    assert deck.run().states == {"first": "cached", "second": "cancelled"}
    assert deck.lines("ran") == []
    assert deck.run("--retry-cancelled").states == {"first": "cached", "second": "succeeded"}


def test_an_output_is_stale_although_the_deck_was_moved_under_the_attempt(deck: Deck) -> None:
    deck.write(WRITES.format(name="a", word="", code=0).replace("echo  >model.pt", "echo on >ran; read _ <gate"))
    (deck.folder / "model.pt").write_text("of before")
    gate = deck.gate()
    engine = deck.start("--no-skip-existing")
    until(lambda: deck.lines("ran") and deck.lines("logs/a/attempt-1.json"))
    engine.kill()
    deck.move()
    gate.let()
    assert deck.run().rows["a"]["reason"].startswith("stale output")
