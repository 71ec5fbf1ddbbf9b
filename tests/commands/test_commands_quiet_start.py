"""A command that starts an engine for an unfinished run is taken before the engine starts anything."""

from __future__ import annotations

import os
import signal

import pytest

from gpudeck.engine.core.events import AttemptStarting
from tests.commands.commands_rig import MIXED, Commanded, typed
from tests.e2e.decks import lives, until

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "read _ <gate"
    [[task]]
    name = "next-{i}"
    matrix.i = [1, 2]
    command = "echo {i} >>ran"
"""


def kill_engine(deck: Commanded) -> None:
    pid = deck.engine_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))


@pytest.fixture
def unfinished(deck: Commanded) -> Commanded:
    """Its engine is dead, its first task has ended since, two are queued."""
    deck.write(DECK)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("first", "running")
    kill_engine(deck)
    gate.let(1)
    until(lambda: not deck.living())
    return deck


def started(deck: Commanded) -> list[str]:
    return [fact.task for fact in deck.facts() if isinstance(fact, AttemptStarting)]


def test_a_pause_without_an_engine_starts_no_task(unfinished: Commanded) -> None:
    done = unfinished.command("pause")
    assert (done.code, "paused: nothing starts" in done.out) == (0, True)
    unfinished.until_state("first", "succeeded")
    assert started(unfinished) == ["first"]
    assert unfinished.command("unpause").code == 0
    until(lambda: unfinished.lines("ran") == ["1", "2"])


@pytest.mark.parametrize("verb", ["hold", "cancel", "kill"])
def test_a_verb_without_an_engine_comes_before_the_first_start(unfinished: Commanded, verb: str) -> None:
    assert unfinished.command(verb, "next-1").code == 0
    until(lambda: unfinished.lines("ran") == ["2"])
    assert started(unfinished) == ["first", "next-2"]


def test_a_priority_without_an_engine_decides_what_is_started_first(unfinished: Commanded) -> None:
    assert unfinished.command("priority", "next-2", "5").code == 0
    until(lambda: unfinished.lines("ran") == ["2", "1"])


def test_a_drain_without_an_engine_comes_before_the_first_start(unfinished: Commanded) -> None:
    assert unfinished.command("gpus", "drain", "0").code == 0
    unfinished.until_state("first", "succeeded")
    assert started(unfinished) == ["first"]
    assert unfinished.command("gpus", "enable", "0").code == 0
    until(lambda: unfinished.lines("ran") == ["1", "2"])


def test_nothing_starts_while_the_user_is_asked(unfinished: Commanded) -> None:
    with typed(unfinished, "cancel", "next-*") as terminal:
        terminal.until("cancel 2 tasks")
        terminal.type("y\n")
        assert terminal.finish() == 0
    assert started(unfinished) == ["first"]


def test_what_is_wrong_with_a_verb_keeps_no_task_from_starting(unfinished: Commanded) -> None:
    with typed(unfinished, "cancel", "next-*") as terminal:
        terminal.until("cancel 2 tasks")
        terminal.type("n\n")
        assert terminal.finish() == 1
    until(lambda: unfinished.lines("ran") == ["1", "2"])


def test_an_engine_that_was_killed_before_it_was_asked_for_anything_leaves_nothing_odd(unfinished: Commanded) -> None:
    with typed(unfinished, "cancel", "next-*") as terminal:
        terminal.until("cancel 2 tasks")
        kill_engine(unfinished)
        assert started(unfinished) == ["first"]
    assert unfinished.go().code == 0
    until(lambda: unfinished.lines("ran") == ["1", "2"])


def test_an_engine_to_which_nobody_comes_starts_its_tasks_by_itself(unfinished: Commanded) -> None:
    done = unfinished.shell(f'gpudeck engine "{unfinished.folder}/tasks.toml" --quiet-start')
    assert (done.code, done.err) == (0, "")
    assert unfinished.lines("ran") == ["1", "2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cancel next-*", "cancel 2 tasks (2 queued): next-1, next-2? Nobody can be asked here: -y says yes"),
        ("hold next-*", "hold 2 tasks (2 queued): next-1, next-2? Nobody can be asked here: -y says yes"),
        ("priority next-1 99999999999999999999", "priority wants a number from -9007199254740992 to 9007199254740992"),
        ("gpus drain 0-99999999999", "GPU 0-99999999999: a range goes from a lower number to a higher one"),
        ("gpus drain 3-1", "GPU 3-1: a range goes from a lower number to a higher one"),
    ],
)
def test_no_engine_is_started_for_what_is_refused(unfinished: Commanded, words: str, said: str) -> None:
    done = unfinished.command(*words.split())
    assert (done.code, said in done.err, unfinished.engines_alive()) == (2, True, [])
    assert started(unfinished) == ["first"]


def test_no_engine_is_started_for_a_retry_that_is_refused(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    for words, said in (
        (("good", "bad", "--not-on", "7"), "GPU 7: this deck uses 0, 1"),
        (("*",), "retry 2 tasks (1 succeeded, 1 failed): good, bad?"),
    ):
        done = deck.command("retry", *words)
        assert (done.code, said in done.err, deck.engines_alive()) == (2, True, [])


def test_no_engine_is_started_to_drain_a_gpu_that_the_deck_has_not(unfinished: Commanded) -> None:
    done = unfinished.command("gpus", "drain", "9")
    assert (done.code, done.err.splitlines()[-1]) == (2, "gpudeck: GPU 9: this deck uses 0")
    assert unfinished.engines_alive() == []


def test_no_engine_is_started_to_drain_a_gpu_of_a_deck_that_never_ran(deck: Commanded) -> None:
    deck.write(DECK)
    done = deck.command("gpus", "drain", "0,3")
    assert (done.code, done.err, deck.engines_alive()) == (2, "gpudeck: GPU 3: this deck uses 0\n", [])
    assert not (deck.folder / ".gpudeck").exists()
