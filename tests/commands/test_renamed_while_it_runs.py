"""What runs is not done a second time beside it, whatever the next engines call it."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until

DECK = '[deck]\ngpus = "sim:2"\n'


def named(*names: str, command: str = "echo up >>ups; read _ <gate") -> str:
    return DECK + "".join(f"[[task]]\nname = {name!r}\ncommand = {command!r}\n" for name in names)


def swapped(of_a: str, of_b: str) -> str:
    return named("a", command=of_a) + named("b", command=of_b).removeprefix(DECK)


def seen_by_an_engine(deck: Commanded, text: str) -> None:
    """That starts on this file, and ends before its tasks do."""
    deck.write(text)
    assert deck.command("start").code == 0
    assert deck.command("stop").code == 0


def test_renamed_twice_with_an_engine_between(deck: Commanded) -> None:
    gate = deck.gate()
    deck.write(named("one"))
    assert deck.command("start").code == 0
    deck.until_state("one", "running")
    assert deck.command("stop").code == 0
    seen_by_an_engine(deck, named("two"))
    seen_by_an_engine(deck, named("three"))
    deck.write(named("four"))
    assert deck.command("start").code == 0
    assert "waits for one, which does its work" in deck.command("explain", "four").out
    gate.let()
    assert deck.command("wait").code == 0
    assert (deck.rows()["four"]["state"], deck.lines("ups")) == ("cached", ["up"])


@pytest.mark.parametrize(("cancelled", "told"), [("one", "two starts next"), ("two", "one runs on")])
def test_who_cancels_a_renamed_task_by_one_name_is_told_of_the_other(
    deck: Commanded, cancelled: str, told: str
) -> None:
    gate = deck.gate()
    deck.write(named("one"))
    assert deck.command("start").code == 0
    deck.until_state("one", "running")
    deck.write(named("two"))
    assert deck.command("apply", "-y").code == 0
    said = deck.command("cancel", cancelled).err
    assert f"{told} with the same work: cancel it, too, to be rid of it" in said
    gate.let()


def test_renamed_to_a_name_that_has_done_other_work(deck: Commanded) -> None:
    gate = deck.gate()
    deck.write(named("other", command="true") + named("one").removeprefix(DECK))
    assert deck.command("start").code == 0
    deck.until_state("one", "running")
    deck.until_state("other", "succeeded")
    assert deck.command("stop").code == 0
    seen_by_an_engine(deck, named("other"))
    gate.let()
    assert deck.command("start").code == 0
    assert deck.command("wait").code == 0
    assert deck.lines("ups") == ["up"]


def test_a_task_that_did_the_same_beside_it_waits_for_nobody(deck: Commanded) -> None:
    gate = deck.gate()
    deck.write(named("one", "two").replace("sim:2", "sim:1"))
    assert deck.command("start").code == 0
    deck.until_state("one", "running")
    assert deck.command("stop").code == 0
    deck.write(named("two"))
    assert deck.command("start").code == 0
    deck.until_state("two", "running")
    until(lambda: deck.lines("ups") == ["up", "up"])
    gate.let(2)
    assert deck.command("wait").code == 0


def test_two_that_swap_their_names_while_they_run_and_no_engine_looks_are_each_done_once(deck: Commanded) -> None:
    gate = deck.gate()
    one, other = "echo one >>ups; read _ <gate", "echo other >> ups; read _ <gate"
    deck.write(swapped(one, other))
    assert deck.command("start").code == 0
    until(lambda: sorted(deck.lines("ups")) == ["one", "other"])
    assert deck.command("stop").code == 0
    deck.write(swapped(other, one))
    assert deck.command("start").code == 0
    gate.let(2)
    assert deck.command("wait").code == 0
    assert sorted(deck.lines("ups")) == ["one", "other"]


def test_two_finished_ones_that_swap_their_names_are_found_done_by_apply(deck: Commanded) -> None:
    deck.write(swapped("echo one >> ups", "echo other >> ups"))
    assert deck.command("--headless").code == 0
    deck.write(swapped("echo other >> ups", "echo one >> ups"))
    planned = deck.command("apply", "--dry-run").out
    assert "(was " in planned
    assert "under the other name counts" in planned
    assert "run again" not in planned
    assert deck.command("apply", "-y").code == 0
    assert deck.command("wait").code == 0
    assert (deck.rows()["a"]["state"], deck.lines("ups")[2:]) == ("cached", [])
