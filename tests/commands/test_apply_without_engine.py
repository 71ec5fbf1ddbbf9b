"""`gpudeck apply` while no engine runs: the edit is shown and asked about before anything starts."""

from __future__ import annotations

import json

import pytest

from tests.commands.commands_rig import Commanded, typed

DECK = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "t-{{seed}}"
    matrix.seed = {seeds}
    timeout = "{timeout}"
    command = "echo {said} {{seed}} >>ran"
"""


def write(deck: Commanded, *, seeds: tuple[int, ...] = (1, 2), timeout: str = "10m", said: str = "old") -> None:
    deck.write(DECK.format(seeds=list(seeds), timeout=timeout, said=said))


@pytest.fixture
def done(deck: Commanded) -> Commanded:
    """Its two tasks have succeeded, and no engine runs."""
    write(deck)
    assert deck.run().code == 0
    return deck


def test_a_no_starts_nothing_and_added_tasks_are_in_the_plan(done: Commanded) -> None:
    write(done, seeds=(1, 2, 3))
    with typed(done, "apply") as terminal:
        terminal.until("apply this?")
        assert "t-3: they start when they can" in terminal.shown
        terminal.type("n\r")
        assert terminal.finish() == 1
    assert done.engines_alive() == []
    assert sorted(done.lines("ran")) == ["old 1", "old 2"]


def test_another_rule_is_named(done: Commanded) -> None:
    write(done, timeout="20m")
    ran = done.command("apply", "-y")
    assert "t-1 (timeout), t-2 (timeout): they take effect at once" in ran.out


@pytest.mark.parametrize("words", [("apply", "-y"), ("apply", "-y", "--json")])
def test_without_an_edit_no_engine_is_started(done: Commanded, words: tuple[str, ...]) -> None:
    ran = done.command(*words)
    assert ran.code == 0
    assert json.loads(ran.out)["changes"] is False if "--json" in words else ran.out == "nothing has changed\n"
    assert done.engines_alive() == []


def test_a_deck_that_never_ran_is_not_started(deck: Commanded) -> None:
    write(deck)
    assert "has never been started" in deck.command("apply", "-y").err
    assert deck.engines_alive() == []
