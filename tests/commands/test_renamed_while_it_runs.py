"""What runs is not done a second time beside it, whatever the next engines call it."""

from __future__ import annotations

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until

DECK = '[deck]\ngpus = "sim:2"\n'


def named(*names: str, command: str = "echo up >>ups; read _ <gate") -> str:
    return DECK + "".join(f"[[task]]\nname = {name!r}\ncommand = {command!r}\n" for name in names)


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
    assert deck.rows()["four"]["state"] == "waiting"
    gate.let()
    assert deck.command("wait").code == 0
    assert (deck.rows()["four"]["state"], deck.lines("ups")) == ("cached", ["up"])


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
