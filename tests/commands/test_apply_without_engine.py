"""`gpudeck apply` while no engine runs: the edit is shown and asked about before anything starts."""

from __future__ import annotations

import json

import pytest

from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import until

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


def test_what_an_earlier_edit_has_changed_is_not_run_again_by_the_apply_of_another(done: Commanded) -> None:
    write(done, said="new")
    assert done.command("start").code == 0
    write(done, seeds=(1, 2, 3), said="new")
    told = done.command("apply", "-y").out
    assert "changed earlier       t-1, t-2: `gpudeck retry state:changed` runs them again" in told
    until(lambda: "new 3" in done.lines("ran"))
    assert done.command("wait").code == 0
    assert sorted(done.lines("ran")) == ["new 3", "old 1", "old 2"]
    assert done.command("apply", "-y").out.startswith("nothing has changed\n")
    assert done.command("apply", "--keep", "-y").code == 0
    assert not any(row["changed"] for row in done.rows().values())


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


def test_nor_is_one_of_which_a_hold_was_noted_and_nothing_has_run(deck: Commanded) -> None:
    write(deck)
    assert deck.command("hold", "t-2").code == 0
    assert "none of its runs has begun" in deck.command("apply", "-y").err
    assert (deck.engines_alive(), (deck.folder / "ran").exists()) == ([], False)


HALTED = """
    [deck]
    gpus = "sim:1"
    halt = "soon,fail=1"
    [[task]]
    name = "fails"
    command = "exit 1"
    [[task]]
    name = "left"
    command = "echo left >>ran"
"""


@pytest.fixture
def halted(deck: Commanded) -> Commanded:
    """A run was halted before its second task, and no engine runs."""
    deck.write(HALTED)
    assert deck.run().code == 1
    return deck


def test_a_command_that_is_added_with_an_engine_starts_alone_after_a_halt(halted: Commanded) -> None:
    added = halted.command("add", "--start", "--name", "new", "--", "sh", "-c", "echo new >>ran")
    assert "halted by fails" in added.err
    halted.until_state("new", "succeeded")
    assert (halted.state("left"), halted.lines("ran")) == ("waiting", ["new"])


def test_what_was_added_to_a_running_engine_is_no_edit_afterwards(done: Commanded) -> None:
    assert done.command("start").code == 0
    assert done.command("add", "--name", "new", "--", "true").code == 0
    done.until_state("new", "succeeded")
    done.kill_engine()
    assert "nothing has changed" in done.command("apply", "--dry-run").out


def test_tasks_that_never_ran_are_named_before_they_start(done: Commanded) -> None:
    write(done, seeds=(1, 2, 3))
    assert done.command("retry", "t-1").code == 0
    until(lambda: len(done.lines("ran")) == 3 and done.state("t-1") == "succeeded")
    done.kill_engine()
    write(done, seeds=(1, 2, 3), timeout="20m")
    assert "never ran             t-3: they start when they can" in done.command("apply", "--dry-run").out
