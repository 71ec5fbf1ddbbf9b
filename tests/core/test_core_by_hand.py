"""Verdicts on attempts nobody knows of, and cancels that are remembered."""

from __future__ import annotations

import pytest
from core_restored import assert_restores
from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Stop
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings, Halt


def lose_sight(found: World) -> None:
    """The engine is killed, and the next cannot tell what became of what ran."""
    found.restart(unproven=lambda _: True)


# -- attempts that nobody knows of -------------------------------------------------------------------------------------


def test_a_retry_of_an_unknown_attempt_frees_its_slot_and_starts_it_again() -> None:
    found = world(spec("a"))
    lose_sight(found)
    assert found.phase("a") == "unknown"
    found.verb("retry", "a", by="alice")
    assert (found.phase("a"), [launch.attempt for launch in found.launched]) == ("running", [1, 2])
    (end,) = found.of(e.AttemptEnded)
    assert end.outcome == e.Outcome("lost", detail="gone, says alice; what became of it is not known")  # pyright: ignore


def test_a_retry_of_an_unknown_attempt_that_had_succeeded_keeps_its_success() -> None:
    found = world(spec("a", leftovers="wait"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    lose_sight(found)
    found.verb("retry", "a")
    assert (found.phase("a"), found.running()) == ("succeeded", {})


def test_a_retry_of_an_unknown_attempt_does_not_count_as_a_failure() -> None:
    found = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("now", fail=1)))
    lose_sight(found)
    found.verb("retry", "a")
    assert (found.of(e.Halted), found.deck.run.failures) == ([], 0)


def test_a_cancelled_unknown_attempt_frees_its_slot_for_others() -> None:
    found = world(spec("a", retries=3), spec("b"))
    lose_sight(found)
    found.verb("cancel", "a")
    assert found.phases() == {"a": "cancelled", "b": "running"}


def test_who_cancelled_an_unknown_attempt_is_known_to_the_next_engine() -> None:
    found = world(spec("a"))
    lose_sight(found)
    found.verb("cancel", "a", by="alice")
    assert_restores(found)
    assert found.task("a").phase.by == "alice"  # pyright: ignore


def test_a_cancelled_unknown_attempt_whose_failure_was_known_is_not_tried_again() -> None:
    found = world(spec("a", retries=3, leftovers="wait"))
    found.leader_exits(found.proc("a"), 1)
    found.settle()
    lose_sight(found)
    found.verb("cancel", "a")
    assert found.phase("a") == "cancelled"


# -- cancel ------------------------------------------------------------------------------------------------------------


def closing() -> World:
    """A world in which the leader of a failed attempt is gone and its tree is not."""
    found = world(spec("a", retries=3, leftovers="wait"), spec("b"))
    found.leader_exits(found.proc("a"), 1)
    found.settle()
    assert found.phase("a") == "closing"
    return found


def test_a_cancel_while_an_attempt_closes_is_kept_by_the_next_engine() -> None:
    found = closing()
    found.verb("cancel", "a", by="alice")
    found.restart()
    found.tree_goes(found.proc("a"))
    found.settle()
    assert (found.phase("a"), found.task("a").phase.by) == ("cancelled", "alice")  # pyright: ignore


def test_the_next_engine_stops_what_a_cancelled_attempt_left() -> None:
    found = closing()
    found.verb("cancel", "a")
    found.effects.clear()
    found.restart()
    assert [effect.token for effect in found.effects if isinstance(effect, Stop)] == [found.proc("a").token]


def test_a_cancel_while_a_timeout_stops_an_attempt_is_kept_by_the_next_engine() -> None:
    found = world(spec("a", retries=3, timeout_s=5.0, grace_s=100.0))
    found.advance(6)
    found.verb("cancel", "a")
    found.restart()
    found.end("a", 143)
    assert found.phase("a") == "cancelled"


def test_who_cancelled_an_attempt_is_known_although_its_tree_outlived_its_leader() -> None:
    found = world(spec("a", leftovers="wait"))
    found.verb("cancel", "a", by="alice")
    found.leader_exits(found.proc("a"), 143)
    found.settle()
    found.restart()
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.task("a").phase.by == "alice"  # pyright: ignore


def test_a_second_cancel_writes_nothing_more() -> None:
    found = closing()
    found.verb("cancel", "a")
    before = len(found.facts)
    found.verb("cancel", "a")
    assert len(found.facts) == before


def test_a_task_cancelled_while_it_waits_tells_by_whom() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("cancel", "b", by="alice")
    found.restart()
    assert found.task("b").phase.by == "alice"  # pyright: ignore


def test_a_pause_tells_by_whom() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("pause", by="alice")
    assert explain(found.deck, found.task("b"), found.now)[0].text == "the deck is paused by alice"


@pytest.mark.parametrize("verb", ["pause", "hold", "priority"])
def test_a_verb_that_changes_nothing_writes_nothing(verb: str) -> None:
    found = world(spec("a"), spec("b"))
    found.verb(verb, "b", value=7)
    before = len(found.facts)
    found.verb(verb, "b", value=7)
    assert len(found.facts) == before


@pytest.mark.parametrize("verb", ["cancel", "hold", "accept", "priority"])
def test_a_verb_leaves_alone_what_the_run_leaves_out_and_what_has_left_the_file(verb: str) -> None:
    found = world(spec("a"), spec("b"), selected=("a",))
    before = len(found.facts)
    found.give(i.Verb(verb, ("b", "gone"), 7))  # pyright: ignore[reportArgumentType]
    assert len(found.facts) == before


# -- all together ------------------------------------------------------------------------------------------------------


def test_everything_asked_for_by_hand_is_rebuilt_from_its_facts() -> None:
    found = world(*[spec(f"a{index}", retries=2) for index in range(4)], spec("b", needs=("a*",)), gpus=2)
    found.end("a0", 1)
    found.verb("retry", "a0", fresh=True, env=(("X", "1"),), not_on=("GPU-1",))
    found.end("a1")
    found.verb("retry", "a1", downstream=True)
    found.verb("cancel", "a3", by="alice")
    found.verb("hold", "a2")
    assert_restores(found)
