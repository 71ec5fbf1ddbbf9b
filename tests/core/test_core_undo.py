"""What a user asked for is taken back, as far as everything is still as that left it."""

from __future__ import annotations

from core_restored import assert_restores
from core_world import World, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.acts import KEPT
from gpudeck.engine.core.phases import Backoff, Cancelled, Failed
from gpudeck.engine.core.spec import DeckSettings, Halt


def busy(*names: str, **more: object) -> World:
    """One GPU, taken by the first task; the others wait."""
    return world(*(spec(name, **more) for name in names))


def failed_behind_another() -> World:
    """b has failed; c holds the only GPU, so that a retry of b waits."""
    found = world(spec("b"), spec("c"))
    found.end("b", 1)
    assert found.phases() == {"b": "failed", "c": "running"}
    return found


def test_a_retry_that_waits_is_taken_back_with_outcome_and_history() -> None:
    found = failed_behind_another()
    outcome, ended = found.task("b").phase, found.task("b").ended
    act = found.verb("retry", "b")
    assert found.phase("b") == "queued"
    found.undo(act)
    assert (found.task("b").phase, found.task("b").ended) == (outcome, ended)
    assert isinstance(found.task("b").phase, Failed)
    found.end("c")
    assert found.deck.run.ended


def test_a_retry_taken_back_leaves_the_counts_of_the_run_as_they_were() -> None:
    found = failed_behind_another()
    before = (found.deck.run.settled, found.deck.run.failures)
    found.undo(found.verb("retry", "b"))
    assert (found.deck.run.settled, found.deck.run.failures) == before


def test_a_retry_taken_back_gives_the_budget_back_as_it_was() -> None:
    found = world(spec("b", retries=1, backoff_s=1.0), spec("c"))
    found.end("b", 1)
    found.advance(5.0)
    found.end("c")
    found.end("b", 1)
    spent = found.task("b").retries_used
    found.verb("pause")
    act = found.verb("retry", "b")
    assert (spent, found.task("b").retries_used) == (1, 0)
    found.undo(act)
    assert found.task("b").retries_used == 1


def test_a_retry_that_has_started_is_not_taken_back() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    act = found.verb("retry", "a")
    found.undo(act)
    assert found.phase("a") == "running"


def test_a_retry_that_has_ended_again_is_not_taken_back() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    act = found.verb("retry", "a")
    found.end("a", 0)
    found.undo(act)
    assert found.phase("a") == "succeeded"


def test_a_start_that_came_to_nothing_can_still_be_taken_back() -> None:
    found = failed_behind_another()
    act = found.verb("retry", "b")
    found.refuse = 1
    found.end("c")
    assert found.phase("b") == "queued"
    found.undo(act)
    assert found.phase("b") == "failed"


def test_of_many_retried_tasks_only_those_that_still_wait_are_taken_back() -> None:
    found = world(spec("a"), spec("b"))
    found.end("a", 1)
    found.end("b", 1)
    found.undo(found.verb("retry", "a", "b"))
    assert found.phases() == {"a": "running", "b": "failed"}


def test_what_was_retried_downstream_is_taken_back_with_it() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("z"))
    found.end("a")
    found.end("b")
    assert found.phases() == {"a": "succeeded", "b": "succeeded", "z": "running"}
    act = found.verb("retry", "a", downstream=True)
    assert found.phases() == {"a": "queued", "b": "waiting", "z": "running"}
    found.undo(act)
    assert found.phases() == {"a": "succeeded", "b": "succeeded", "z": "running"}


def test_what_waits_for_a_task_is_blocked_again_when_its_retry_is_taken_back() -> None:
    found = world(spec("a"), spec("z"), spec("b", needs=("a",)))
    found.end("a", 1)
    act = found.verb("retry", "a")
    assert found.phase("b") == "waiting"
    found.undo(act)
    assert found.phase("b") == "blocked"


def test_a_retry_out_of_its_backoff_goes_back_to_the_rest_of_it() -> None:
    found = world(spec("b", retries=1, backoff_s=100.0), spec("c"))
    found.end("b", 1)
    phase = found.task("b").phase
    assert isinstance(phase, Backoff)
    found.undo(found.verb("retry", "b"))
    assert found.task("b").phase == phase
    found.end("c")
    found.advance(130.0)
    assert found.phase("b") == "running"


def test_a_retry_that_lifted_a_halt_brings_it_back_with_it() -> None:
    found = world(spec("b"), spec("c"), spec("d"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("b", 1)
    assert found.deck.run.ended
    found.verb("hold", "c", "d")
    found.verb("pause")
    act = found.verb("retry", "b")
    assert not found.deck.run.halted
    found.undo(act)
    assert (found.phase("b"), found.deck.run.halted) == ("failed", "b")


def test_a_halt_does_not_come_back_over_what_somebody_asked_for_since() -> None:
    found = world(spec("b"), spec("c"), spec("d"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=2)))
    found.end("b", 1)
    found.end("c", 1)
    assert found.deck.run.halted
    first = found.verb("retry", "b")
    found.verb("retry", "c")
    found.undo(first)
    assert not found.deck.run.halted


def test_a_cancel_of_a_queued_task_is_taken_back() -> None:
    found = busy("a", "b")
    act = found.verb("cancel", "b")
    assert isinstance(found.task("b").phase, Cancelled)
    found.undo(act)
    assert found.phase("b") == "queued"
    found.end("a")
    assert found.phase("b") == "running"


def test_the_cancel_of_a_task_that_ran_is_not_taken_back() -> None:
    found = busy("a", "b")
    act = found.verb("cancel", "a", "b")
    found.undo(act)
    found.end("a", 143)
    assert found.phases() == {"a": "cancelled", "b": "running"}


def test_a_cancel_that_ended_the_run_is_taken_back_in_another() -> None:
    found = busy("a", "b")
    found.end("a")
    found.end("b", 1)
    found.verb("pause")
    found.verb("retry", "b")
    act = found.verb("cancel", "b")
    assert found.deck.run.ended
    found.undo(act)
    assert (found.phase("b"), found.deck.run.ended) == ("queued", False)
    assert found.deck.paused, "it was paused when it was cancelled"


def test_a_held_task_whose_cancel_is_taken_back_is_still_held() -> None:
    found = busy("a", "b")
    found.verb("hold", "b")
    found.undo(found.verb("cancel", "b"))
    found.end("a")
    assert (found.phase("b"), found.task("b").held) == ("queued", True)


def test_acts_are_taken_back_one_after_the_other() -> None:
    found = failed_behind_another()
    retried = found.verb("retry", "b")
    cancelled = found.verb("cancel", "b")
    found.undo(cancelled)
    assert found.phase("b") == "queued"
    found.undo(retried)
    assert found.phase("b") == "failed"


def test_an_act_under_a_later_one_is_left_as_it_is() -> None:
    found = failed_behind_another()
    retried = found.verb("retry", "b")
    found.verb("cancel", "b")
    found.undo(retried)
    assert found.phase("b") == "cancelled"


def test_taking_back_twice_changes_nothing_more() -> None:
    found = failed_behind_another()
    act = found.verb("retry", "b")
    found.undo(act)
    count = len(found.facts)
    found.undo(act)
    assert len(found.facts) == count


def test_the_next_engine_can_take_back_what_was_asked_of_the_last_one() -> None:
    found = failed_behind_another()
    act = found.verb("retry", "b")
    found.restart()
    assert found.phase("b") == "queued"
    found.undo(act)
    assert found.phase("b") == "failed"
    assert_restores(found)


def test_what_was_taken_back_stays_so_in_the_next_engine() -> None:
    found = failed_behind_another()
    found.undo(found.verb("retry", "b"))
    found.restart()
    assert (found.phase("b"), found.running()) == ("failed", {"c": (0,)})


def test_a_deck_opens_whose_file_no_longer_has_what_was_taken_back() -> None:
    found = failed_behind_another()
    found.undo(found.verb("retry", "b"))
    found.restart(file=deck_file([spec("c")]))
    assert found.phases() == {"c": "running"}


def test_a_backoff_of_before_a_reboot_is_short_when_it_comes_back() -> None:
    found = world(spec("b", retries=1, backoff_s=100.0), spec("c"))
    found.advance(50_000.0)
    found.end("b", 1)
    act = found.verb("retry", "b")
    found.verb("pause")
    found.restart(reboot=True)
    found.undo(act)
    phase = found.task("b").phase
    assert isinstance(phase, Backoff)
    assert phase.until - found.now <= 600.0


def test_a_hold_on_a_task_that_has_ended_since_is_taken_back() -> None:
    found = busy("a")
    act = found.verb("hold", "a")
    found.end("a")
    found.undo(act)
    assert not found.task("a").held


def test_a_hold_and_a_priority_are_taken_back() -> None:
    found = busy("a", "b", "c")
    held, ranked = found.verb("hold", "b"), found.verb("priority", "c", value=7)
    found.undo(held)
    found.undo(ranked)
    assert (found.task("b").held, found.task("c").priority) == (False, 0)
    found.end("a")
    assert found.phase("b") == "running"


def test_a_priority_that_somebody_has_changed_since_is_left() -> None:
    found = busy("a", "b")
    act = found.verb("priority", "b", value=7)
    found.verb("priority", "b", value=3, by="alice")
    found.undo(act)
    assert found.task("b").priority == 3


def test_a_pause_is_taken_back() -> None:
    found = busy("a", "b")
    act = found.verb("pause")
    found.end("a")
    assert found.phase("b") == "queued"
    found.undo(act)
    assert found.phase("b") == "running"


def test_taking_a_cancel_back_in_a_halted_run_that_has_ended_pauses_nothing() -> None:
    found = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    act = found.verb("cancel", "b")
    found.undo(act)
    assert (found.deck.paused, found.phase("b")) == ("", "running")


def test_an_unpause_is_taken_back() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("pause")
    act = found.verb("unpause")
    found.undo(act)
    found.end("a")
    assert (found.deck.paused, found.phase("b")) == ("paused", "queued")


def test_taking_a_pause_back_does_not_lift_a_halt() -> None:
    found = world(spec("b"), spec("c"), spec("d"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("b", 1)
    assert found.deck.run.halted == "b"
    found.undo(found.verb("pause"))
    assert (found.deck.paused, found.deck.run.halted) == ("", "b")


def test_taking_a_pause_back_does_not_lift_a_halt_that_came_since() -> None:
    found = world(spec("b"), spec("c"), spec("d"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    act = found.verb("pause")
    found.end("b", 1)
    halted = found.deck.paused
    found.undo(act)
    assert (found.deck.run.halted, found.deck.paused) == ("b", halted)


def test_a_drained_gpu_is_given_back_as_it_was_marked() -> None:
    found = busy("a", "b")
    found.give(i.GpuVerb("take", "GPU-0", "t"))
    found.give(i.GpuVerb("drain", "GPU-0", "d"))
    found.undo("d")
    assert found.deck.gpus["GPU-0"].mark == "take"
    found.undo("t")
    assert found.deck.gpus["GPU-0"].mark == ""


def test_only_the_newest_acts_are_remembered() -> None:
    found = failed_behind_another()
    first = found.verb("hold", "c")
    for value in range(KEPT):
        found.verb("priority", "c", value=value + 1)
    assert found.deck.acts.get(first) is None
    found.undo(first)
    assert found.task("c").held


def test_a_retry_that_the_file_led_to_is_nobodys_to_take_back() -> None:
    found = failed_behind_another()
    act = found.verb("retry", "b")
    found.facts.append(e.TaskRetried("b", found.now))
    found.restart()
    found.undo(act)
    assert found.phase("b") == "queued"


def test_a_mark_on_a_gpu_that_is_no_longer_there_keeps_no_deck_from_opening() -> None:
    found = world(spec("a", gpu_ids=("0",)), gpus=2)
    found.give(i.GpuVerb("drain", "GPU-1", "d"))
    make = found.make_gpus
    found.make_gpus = lambda: make()[:1]
    found.restart()
    assert found.running() == {"a": (0,)}


def test_what_a_halt_kept_from_another_try_is_blocked_where_what_it_needs_was_cancelled_since() -> None:
    found = world(
        spec("a", priority=9), spec("b", priority=8, needs=("a",), retries=1, backoff_s=1000.0),
        spec("c", priority=7), spec("d"),
        settings=DeckSettings(halt=Halt("soon", fail=1)),
    )  # fmt: skip
    found.end("a")
    found.end("b", 1)
    found.verb("retry", "a")
    found.end("c", 1)
    found.verb("cancel", "a")
    act = found.verb("cancel", "d")
    assert found.deck.run.ended
    found.undo(act)
    assert found.phase("b") == "blocked"
