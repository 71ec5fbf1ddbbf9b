"""Stops, timeouts, leaders and their trees, and attempts nobody knows about."""

from __future__ import annotations

from typing import Literal

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Examine, Stop, Warn
from gpudeck.engine.core.phases import Attempt, IllegalMoveError, Starting
from gpudeck.engine.core.spec import Extras, Watch


def stops(found: World) -> list[tuple[str, float]]:
    return [(effect.signal, effect.grace_s) for effect in found.effects if isinstance(effect, Stop)]


def test_a_timeout_stops_with_the_tasks_own_signal_and_grace() -> None:
    found = world(spec("a", timeout_s=100.0, stop_signal="INT", grace_s=7.0))
    found.advance(101)
    assert stops(found) == [("INT", 7.0)]


def test_a_timeout_is_the_reason_whatever_the_exit_code() -> None:
    found = world(spec("a", timeout_s=100.0))
    found.advance(101)
    found.end("a", 0)
    assert found.task("a").ended[-1].outcome.reason == "timeout"


def test_an_end_from_before_the_stop_is_judged_by_its_code() -> None:
    found = world(spec("a"))
    exited = i.LeaderExited(found.proc("a").token, 0, found.now - 5.0)
    found.verb("cancel", "a")
    found.give(exited, i.TreeGone(exited.token, found.now))
    assert found.phase("a") == "succeeded"


def test_a_warning_comes_before_the_timeout() -> None:
    found = world(spec("a", timeout_s=1000.0, warn_signal="USR1", warn_before_s=300.0))
    found.advance(699)
    assert not any(isinstance(effect, Warn) for effect in found.effects)
    found.advance(2)
    assert [effect.signal for effect in found.effects if isinstance(effect, Warn)] == ["USR1"]


def test_a_timeout_that_passes_while_a_cancel_is_under_way_stops_nothing_again() -> None:
    found = world(spec("a", timeout_s=100.0, grace_s=1000.0))
    found.advance(90)
    found.verb("cancel", "a")
    found.advance(20)
    found.end("a", 143)
    assert (found.phase("a"), stops(found)) == ("cancelled", [("TERM", 1000.0)])


def test_a_timeout_goes_on_across_a_restart() -> None:
    found = world(spec("a", timeout_s=100.0))
    found.advance(60)
    found.restart()
    found.advance(41)
    assert found.phase("a") == "stopping"


def test_an_attempt_found_past_its_timeout_is_warned_first() -> None:
    found = world(spec("a", timeout_s=100.0, warn_signal="USR1", warn_before_s=30.0))
    found.now += 1000
    found.restart()
    assert (any(isinstance(effect, Warn) for effect in found.effects), found.phase("a")) == (True, "running")
    found.advance(31)
    assert found.phase("a") == "stopping"


def test_a_cancel_is_a_cancel_whatever_the_exit_code() -> None:
    found = world(spec("a", retries=3))
    found.verb("cancel", "a")
    found.end("a", 0)
    assert found.phase("a") == "cancelled"


def test_kill_gives_no_grace() -> None:
    found = world(spec("a"))
    found.verb("kill", "a")
    assert stops(found) == [("TERM", 0.0)]


def test_kill_hastens_a_stop_under_way() -> None:
    found = world(spec("a"))
    found.verb("cancel", "a")
    found.verb("kill", "a")
    assert (stops(found), found.phase("a")) == ([("TERM", 30.0), ("KILL", 0.0)], "cancelled")


def test_a_cancel_during_a_timeouts_stop_makes_it_cancelled() -> None:
    found = world(spec("a", timeout_s=10.0, retries=3))
    found.advance(11)
    found.verb("cancel", "a")
    found.end("a", 143)
    assert found.phase("a") == "cancelled"


def test_a_stop_goes_on_across_a_restart_with_what_is_left_of_its_grace() -> None:
    found = world(spec("a", grace_s=30.0))
    found.verb("cancel", "a")
    found.advance(10)
    found.restart()
    assert stops(found)[-1] == ("TERM", 20.0)
    found.end("a", 0)
    assert found.phase("a") == "cancelled"


def test_a_start_refused_while_being_cancelled_is_cancelled() -> None:
    found = world(spec("a"), begin=False)
    found.begin(settle=False)
    token = next(iter(found.deck.active))
    found.inbox.clear()
    found.give(i.Verb("cancel", ("a",)), i.SpawnRefused(token, "fork refused"))
    assert found.phase("a") == "cancelled"


def test_a_cancelled_start_that_never_ran_stays_cancelled_after_a_restart() -> None:
    found = world(spec("a"), begin=False)
    found.begin(settle=False)
    found.procs.clear()
    found.inbox.clear()
    found.step(i.Verb("cancel", ("a",)))
    found.restart()
    assert found.phase("a") == "cancelled"


def test_the_slot_stays_taken_until_the_tree_is_gone() -> None:
    found = world(spec("a"), spec("b"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    assert (found.phase("a"), found.phase("b")) == ("closing", "queued")
    found.tree_goes(found.proc("a"))
    found.settle()
    assert (found.phase("a"), found.phase("b")) == ("succeeded", "running")


def test_dependents_wait_until_the_tree_is_gone() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), gpus=2)
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    assert found.phase("b") == "waiting"


def test_what_outlives_its_leader_is_stopped_after_a_while() -> None:
    found = world(spec("a", linger_s=10.0))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.advance(9)
    assert stops(found) == []
    found.advance(40)
    assert (stops(found), found.phase("a")) == ([("TERM", 30.0)], "succeeded")


def test_what_outlives_its_leader_is_left_alone_where_the_task_waits_for_it() -> None:
    found = world(spec("a", leftovers="wait"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.advance(1000)
    assert (stops(found), found.phase("a")) == ([], "closing")


def test_an_attempt_has_lasted_until_its_leader_ended_whatever_it_left() -> None:
    found = world(spec("a"))
    found.advance(10)
    found.leader_exits(found.proc("a"), 0)
    found.advance(5)
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.task("a").ended[-1].duration_s == 10.0


def test_an_outcome_fixed_by_the_leaders_end_outlives_the_engine() -> None:
    found = world(spec("a", leftovers="wait"))
    found.leader_exits(found.proc("a"), 3)
    found.settle()
    found.restart()
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.task("a").ended[-1].outcome.exit_code == 3


def test_a_cancel_while_the_tree_closes_wants_no_retry() -> None:
    found = world(spec("a", retries=3, leftovers="wait"))
    found.leader_exits(found.proc("a"), 1)
    found.settle()
    found.verb("cancel", "a")
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.phase("a") == "cancelled"


def left_working(**more: object) -> World:
    """A world in which a leader has done well, and the task waits for what it left."""
    found = world(spec("a", leftovers="wait", **more))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    assert found.phase("a") == "closing"
    return found


def test_a_timeout_also_stops_what_a_task_waits_for() -> None:
    found = left_working(timeout_s=100.0)
    found.advance(101)
    assert stops(found) == [("TERM", 30.0)]
    found.advance(31)
    assert found.task("a").ended[-1].outcome.reason == "timeout"


def test_a_timeout_of_what_a_task_waits_for_goes_on_across_a_restart() -> None:
    found = left_working(timeout_s=100.0)
    found.restart()
    found.advance(101)
    assert stops(found) == [("TERM", 30.0)]


def test_what_a_leader_left_while_no_engine_was_there_has_no_more_time_than_its_timeout() -> None:
    found = world(spec("a", leftovers="wait", timeout_s=100.0))
    proc = found.proc("a")
    found.leader_exits(proc, 0)
    found.now += 50
    found.restart()
    assert (found.phase("a"), stops(found)) == ("closing", [])
    found.advance(51)
    assert stops(found) == [("TERM", 30.0)]


def test_what_a_leader_left_that_was_over_its_time_before_an_engine_came_is_stopped() -> None:
    found = world(spec("a", leftovers="wait", timeout_s=100.0))
    found.leader_exits(found.proc("a"), 0)
    found.now += 150
    found.restart()
    found.advance(31)
    assert (stops(found), found.task("a").ended[-1].outcome.reason) == ([("TERM", 30.0)], "timeout")


def test_what_outlives_its_leader_and_the_engine_is_stopped_after_a_while() -> None:
    found = world(spec("a", linger_s=10.0))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.advance(5)
    found.restart()
    found.advance(4)
    assert stops(found) == []
    found.advance(2)
    assert stops(found) == [("TERM", 30.0)]


def test_a_stop_whose_leader_ended_while_no_engine_was_there_goes_on_with_what_is_left_of_its_grace() -> None:
    found = world(spec("a", grace_s=100.0))
    found.verb("cancel", "a")
    found.leader_exits(found.proc("a"), 143)
    found.now += 40
    found.effects.clear()
    found.restart()
    assert stops(found)[0] == ("TERM", 60.0)


def test_a_stop_of_what_a_task_waits_for_goes_on_across_a_restart() -> None:
    found = left_working(timeout_s=100.0, grace_s=1000.0)
    found.advance(101)
    found.effects.clear()
    found.restart()
    assert stops(found) == [("TERM", 1000.0)]


def test_a_stop_by_a_watch_rule_of_what_a_task_waits_for_goes_on_across_a_restart() -> None:
    found = world(spec("a", leftovers="wait", grace_s=1000.0))
    found.give(i.Watched(found.proc("a").token, "silent for 30 min"))
    found.leader_exits(found.proc("a"), 143)
    found.settle()
    found.effects.clear()
    found.restart()
    assert (found.phase("a"), stops(found)) == ("closing", [("TERM", 1000.0)])


@pytest.mark.parametrize(("action", "phase"), [("succeed", "succeeded"), ("fail", "failed")])
def test_a_stop_by_a_watch_rule_is_judged_as_its_action_says(action: Literal["succeed", "fail"], phase: str) -> None:
    found = world(spec("a", extras=Extras(watch=Watch(pattern="done", action=action))))
    found.give(i.Watched(found.proc("a").token, "said that it is done"))
    found.end("a", 143, outcome=e.Outcome("ok", 0))
    assert found.phase("a") == phase


def test_what_a_task_waits_for_is_warned_before_its_timeout() -> None:
    found = left_working(timeout_s=1000.0, warn_signal="USR1", warn_before_s=300.0)
    found.advance(701)
    assert any(isinstance(effect, Warn) for effect in found.effects)


def test_a_timeout_of_what_a_failed_leader_left_keeps_its_reason() -> None:
    found = world(spec("a", leftovers="wait", timeout_s=100.0))
    found.leader_exits(found.proc("a"), 3)
    found.settle()
    found.advance(140)
    assert found.task("a").ended[-1].outcome.exit_code == 3


def test_what_a_task_waits_for_and_a_reboot_killed_runs_again() -> None:
    found = left_working()
    found.restart(reboot=True)
    assert (found.phase("a"), found.task("a").retries_used, found.deck.successes) == ("running", 0, {})


def test_what_outlives_its_leader_and_dies_with_the_box_leaves_a_success_one() -> None:
    found = world(spec("a"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.restart(reboot=True)
    assert found.phase("a") == "succeeded"


def test_a_cancel_just_after_a_leader_ended_is_no_success_of_what_the_task_waits_for() -> None:
    found = world(spec("a", leftovers="wait"))
    proc = found.proc("a")
    found.leader_exits(proc, 0)
    (ended,) = found.inbox
    found.inbox.clear()
    found.advance(5)
    found.verb("cancel", "a")
    found.give(ended)
    found.tree_goes(proc)
    found.settle()
    assert (found.phase("a"), found.deck.successes) == ("cancelled", {})


def test_a_cancel_of_what_a_task_waits_for_is_no_success() -> None:
    found = left_working()
    found.verb("cancel", "a", by="alice")
    found.tree_goes(found.proc("a"))
    found.settle()
    assert (found.phase("a"), found.deck.successes) == ("cancelled", {})


def test_a_cancel_between_the_leaders_end_and_the_reading_of_its_logs_stops_what_it_left() -> None:
    found = world(spec("a", leftovers="wait"))
    found.leader_exits(found.proc("a"), 1)
    found.step()
    found.step(i.Verb("cancel", ("a",)))
    assert (found.phase("a"), stops(found)) == ("closing", [("TERM", 30.0)])


def test_what_a_task_waits_for_and_a_shutdown_stopped_runs_again() -> None:
    found = left_working()
    found.give(i.Shutdown(False, "INT", 5.0))
    found.tree_goes(found.proc("a"))
    found.settle()
    assert (found.phase("a"), found.task("a").retries_used, found.deck.successes) == ("queued", 0, {})


def test_what_nobody_can_prove_keeps_its_slot_and_is_not_started_again() -> None:
    found = world(spec("a", retries=3))
    found.restart(unproven=lambda _: True)
    found.advance(10_000)
    assert (found.phase("a"), len(found.launched)) == ("unknown", 1)


def test_the_user_decides_about_an_attempt_of_unknown_fate() -> None:
    found = world(spec("a"), spec("b"))
    found.restart(unproven=lambda _: True)
    found.verb("cancel", "a")
    assert found.phases() == {"a": "cancelled", "b": "running"}


def test_an_outcome_that_was_known_before_is_kept_when_the_user_decides() -> None:
    found = world(spec("a", leftovers="wait"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.restart(unproven=lambda _: True)
    found.verb("cancel", "a")
    assert found.phase("a") == "succeeded"


def test_an_end_of_an_attempt_that_is_over_is_ignored() -> None:
    found = world(spec("a"))
    token = found.proc("a").token
    found.end("a")
    found.give(i.LeaderExited(token, 1, found.now), i.TreeGone(token, found.now), i.Spawned(token, 1, 1))
    assert found.phase("a") == "succeeded"


def test_a_start_that_is_refused_after_its_end_changes_nothing() -> None:
    found = world(spec("a"))
    token = found.proc("a").token
    found.end("a")
    found.give(i.SpawnRefused(token, "fork refused"))
    assert found.phase("a") == "succeeded"


def test_shutdown_interrupts_what_runs_and_starts_nothing() -> None:
    found = world(spec("a"), spec("b"))
    found.give(i.Shutdown(False, "INT", 5.0))
    assert stops(found) == [("TERM", 5.0)]
    found.end("a", 143)
    assert (found.phases(), found.deck.run.ended) == ({"a": "queued", "b": "queued"}, False)


def test_a_shutdown_with_little_time_hastens_a_stop_under_way_and_what_a_leader_left() -> None:
    found = world(spec("a", grace_s=600.0), spec("b", leftovers="wait", grace_s=600.0), gpus=2)
    found.leader_exits(found.proc("b"), 0)
    found.settle()
    found.verb("cancel", "a")
    found.give(i.Shutdown(False, "INT", 5.0))
    assert stops(found) == [("TERM", 600.0), ("TERM", 5.0), ("TERM", 5.0)]
    found.advance(6)
    assert found.live() == []


def test_a_shutdown_between_a_leaders_end_and_the_reading_of_its_logs_makes_no_success_of_what_it_stops() -> None:
    found = world(spec("a", leftovers="wait", success_codes=frozenset({0}), outputs=("/out",)))
    found.leader_exits(found.proc("a"), 0)
    found.step()
    found.step(i.Shutdown(False, "INT"))
    found.tree_goes(found.proc("a"))
    found.settle()
    assert (found.phase("a"), found.task("a").ended[-1].outcome.reason) == ("queued", "interrupted")


def test_a_second_shutdown_kills() -> None:
    found = world(spec("a"))
    found.give(i.Shutdown(False, "INT"))
    found.give(i.Shutdown(True, "INT"))
    assert found.live() == []


def test_shutdown_stops_what_a_leader_has_left() -> None:
    found = world(spec("a"))
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    found.give(i.Shutdown(False, "INT"))
    assert stops(found) == [("TERM", 30.0)]


def test_a_run_whose_last_task_ends_during_a_shutdown_is_ended_by_the_next_engine() -> None:
    found = world(spec("a"))
    exited = i.LeaderExited(found.proc("a").token, 0, found.now - 5.0)
    found.give(i.Shutdown(False, "INT"))
    found.give(exited, i.TreeGone(exited.token, found.now))
    assert (found.phase("a"), found.deck.run.ended) == ("succeeded", False)
    found.restart()
    assert found.deck.run.ended


def test_a_move_that_no_task_can_make_is_refused() -> None:
    found = world(spec("a"), begin=False)
    with pytest.raises(IllegalMoveError, match="a: Waiting -> Starting"):
        found.deck.move(found.task("a"), Starting(Attempt(1, "t", "f", (), 1, 0, 0.0, 0.0)))


def test_a_disk_that_is_full_keeps_tasks_from_starting_and_lets_others_go_on() -> None:
    found = world(spec("a"), spec("b"))
    found.give(i.JournalState(False, "no space left on device"))
    found.end("a")
    assert found.phases() == {"a": "succeeded", "b": "queued"}
    found.give(i.JournalState(True))
    assert found.phase("b") == "running"


def test_the_logs_of_an_end_are_read_once() -> None:
    found = world(spec("a"))
    token = found.proc("a").token
    effects = found.core.step([i.LeaderExited(token, 1, found.now)], at=found.now, wall=found.wall).effects
    effects += found.core.step([i.TreeGone(token, found.now)], at=found.now, wall=found.wall).effects
    assert [type(effect) for effect in effects] == [Examine]


def test_a_success_code_proves_nothing_where_outputs_are_still_to_be_looked_at() -> None:
    found = world(spec("a", outputs=("model.pt",)))
    found.end("a", 0, outcome=e.Outcome("missing output", 0))
    assert found.phase("a") == "failed"


def test_a_timeout_is_the_reason_also_where_the_tree_outlives_the_leader_and_the_engine() -> None:
    found = world(spec("a", timeout_s=100.0, grace_s=1000.0))
    found.advance(101)
    found.leader_exits(found.proc("a"), 0)
    found.settle()
    assert found.phase("a") == "closing"
    found.restart()
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.task("a").ended[-1].outcome.reason == "timeout"


@pytest.mark.parametrize("verb", ["release", "accept"])
def test_what_a_task_does_by_itself_is_not_taken_for_what_a_user_asked_for(verb: str) -> None:
    """b starts in the turn in which somebody asks for what does nothing to it."""
    found = world(spec("a"), spec("b"), gpus=1)
    asked = i.Verb(verb, ("b",))  # pyright: ignore[reportArgumentType]
    found.end("a", settle=False)
    found.give(asked)
    assert (found.phase("b"), asked.did) == ("running", [])
