"""The loop: facts are on disk before anything is done about them; with a fake journal, launcher and clock."""

from __future__ import annotations

import asyncio
import signal

import pytest

from gpudeck.engine.core.events import (
    AttemptEnded,
    AttemptRunning,
    AttemptStarting,
    RunEnded,
    StartRevoked,
    StopRequested,
)
from gpudeck.engine.core.inputs import JournalState, Shutdown, Verb
from gpudeck.engine.core.phases import Backoff, Cancelled, Queued, Running, Succeeded
from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes.loop_rig import LoopRig, looped, task


@looped(task("a"))
async def test_no_process_starts_before_its_start_is_on_disk(rig: LoopRig) -> None:
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    assert rig.launcher.orders == []
    rig.journal.release()
    await rig.settle()
    assert rig.started == ["a"]


@looped(task("a"))
async def test_observers_hear_of_facts_that_are_on_disk_only(rig: LoopRig) -> None:
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    assert rig.published == []
    rig.journal.release()
    await rig.settle()
    assert rig.published == rig.journal.facts


@looped(task("a"), task("b"))
async def test_a_slot_is_refilled_in_one_commit_with_the_end_that_freed_it(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    before = rig.journal.durable_appends
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert rig.started == ["a", "b"]
    assert rig.journal.durable_appends == before + 1


@looped(task("a"), task("b"))
async def test_the_loop_takes_ends_in_while_the_disk_is_slow(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.hold()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert isinstance(rig["a"].phase, Succeeded)
    assert rig.started == ["a"]


@looped(task("a"))
async def test_the_process_id_is_written_without_waiting_for_it(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    (running,) = rig.facts(AttemptRunning)
    assert running.pid == rig.launcher.pids[rig.token("a")]


@looped(task("a"))
async def test_a_turn_is_over_only_when_nothing_waits_for_the_disk(rig: LoopRig) -> None:
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    assert rig.idle == 0
    rig.journal.release()
    await rig.settle()
    assert rig.idle > 0


@looped(task("a"))
async def test_a_turn_is_not_over_while_what_has_come_in_meanwhile_is_to_be_done(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.hold()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    before = rig.idle
    rig.journal.release()
    rig.journal.hold()
    rig.loop.post(Verb("retry", ("a",)))
    await rig.settle()
    assert rig.idle == before


@looped(task("a"))
async def test_a_run_that_is_over_is_on_disk_as_such(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert len(rig.facts(RunEnded)) == 1


@looped(task("a"))
async def test_on_a_full_disk_nothing_starts(rig: LoopRig) -> None:
    rig.journal.fill()
    rig.begin()
    await rig.settle()
    assert rig.launcher.orders == []
    assert isinstance(rig["a"].phase, Queued)


@looped(task("a"))
async def test_a_start_that_a_full_disk_revoked_is_no_attempt(rig: LoopRig) -> None:
    rig.journal.fill()
    rig.begin()
    await rig.settle()
    assert rig["a"].attempts == 0
    rig.journal.free()
    await rig.later(5)
    assert rig.started == ["a"]
    assert rig["a"].attempts == 1


@looped(task("a"))
async def test_on_a_full_disk_a_start_is_not_tried_again_and_again(rig: LoopRig) -> None:
    rig.journal.fill()
    rig.begin()
    await rig.settle()
    rig.loop.post(JournalState(writable=False, why="no space"))
    for _ in range(20):
        await rig.later(5)
    rig.journal.free()
    assert len(rig.facts(AttemptStarting)) == len(rig.facts(StartRevoked)) == 1


@looped(task("a"), task("b"))
async def test_on_a_full_disk_an_end_is_taken_in_and_written_later(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.fill()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert isinstance(rig["a"].phase, Succeeded)
    assert rig.facts(AttemptEnded) == []
    rig.journal.free()
    assert [fact.task for fact in rig.facts(AttemptEnded)] == ["a"]


@looped(task("a"))
async def test_on_a_full_disk_a_task_can_be_cancelled(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.fill()
    rig.loop.post(Verb("cancel", ("a",)))
    await rig.settle()
    assert [stop.token for stop in rig.launcher.stops] == [rig.token("a")]


@looped(task("a"))
async def test_the_loop_knows_that_it_is_ahead_of_a_full_disk(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    assert not rig.loop.behind
    rig.journal.fill()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert rig.loop.behind


@looped(task("a"))
async def test_a_record_is_kept_while_the_end_is_not_on_disk(rig: LoopRig) -> None:
    rig.attempts.ends.behind = lambda: rig.loop.behind
    rig.begin()
    await rig.settle()
    rig.journal.fill()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    (end,) = [fact for fact in rig.published if isinstance(fact, AttemptEnded)]
    rig.attempts.ends.ended(end, rig.facts(AttemptStarting)[0])
    rig.attempts.ends.written([rig.attempts.running.paths("a", 1).json])
    assert rig.launcher.forgotten == []
    rig.attempts.ends.caught_up()
    assert rig.launcher.forgotten == [rig.token("a")]


@looped(task("a"))
async def test_a_record_is_kept_until_attempt_json_has_its_end(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    (end,) = [fact for fact in rig.published if isinstance(fact, AttemptEnded)]
    rig.attempts.ends.ended(end, rig.facts(AttemptStarting)[0])
    assert rig.launcher.forgotten == []
    rig.attempts.ends.written([rig.attempts.running.paths("a", 1).json])
    assert rig.launcher.forgotten == [rig.token("a")]


@looped(task("a"), task("b"))
async def test_a_journal_that_broke_ends_all_starts_but_nothing_that_runs(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.break_down()
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    await rig.later(100)
    assert rig.started == ["a"]
    assert "start gpudeck again" in rig.loop.broken
    assert rig.launcher.stops == []


@looped(task("a"))
async def test_a_start_that_the_box_refused_is_tried_again_under_the_same_number(rig: LoopRig) -> None:
    rig.launcher.refuse = "fork: Resource temporarily unavailable"
    rig.begin()
    await rig.settle()
    assert rig.facts(StartRevoked)[0].why == rig.launcher.refuse
    rig.launcher.refuse = ""
    await rig.later(5)
    assert [order.env["GPUDECK_ATTEMPT"] for order in rig.launcher.orders] == ["1"]


@looped(task("a"))
async def test_a_start_that_is_tried_again_has_a_token_of_its_own(rig: LoopRig) -> None:
    rig.launcher.refuse = "fork"
    rig.begin()
    await rig.settle()
    rig.launcher.refuse = ""
    await rig.later(5)
    first, second = rig.facts(AttemptStarting)
    assert first.token != second.token == rig.launcher.orders[0].token


@looped(task("a"))
async def test_a_file_in_the_place_of_the_log_folder_is_a_spawn_error_that_names_it(rig: LoopRig) -> None:
    logs = rig.deck.settings.log_dir
    with open(logs, "w", encoding="utf-8"):
        pass
    rig.begin()
    await rig.settle()
    assert rig.launcher.orders == []
    outcome = rig.facts(AttemptEnded)[0].outcome
    assert outcome.reason == "spawn error"
    assert logs in outcome.detail


@looped(task("a"))
async def test_a_lock_that_was_lost_bars_every_start(rig: LoopRig) -> None:
    rig.attempts.starter.guard = lambda: "the state folder was removed"
    rig.begin()
    await rig.settle()
    await rig.later(100)
    assert rig.launcher.orders == []


@looped(task("a", grace_s=7.0))
async def test_a_stop_is_on_disk_before_its_first_signal(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.hold()
    rig.loop.post(Shutdown(now=False, by="SIGINT"))
    await rig.settle()
    assert rig.launcher.stops == []
    rig.journal.release()
    await rig.settle()
    (asked,) = rig.facts(StopRequested)
    assert (asked.why, asked.by) == ("interrupted", "SIGINT")
    assert [stop.grace_s for stop in rig.launcher.stops] == [7.0]


@looped(task("a"))
async def test_a_start_on_its_way_to_the_disk_is_stopped_once_it_exists(rig: LoopRig) -> None:
    rig.launcher.obedient = True
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    rig.loop.post(Shutdown(now=False, by="SIGTERM"))
    await rig.settle()
    rig.journal.release()
    await rig.settle()
    assert rig.started == ["a"]
    assert len(rig.launcher.stops) == 1
    (end,) = rig.facts(AttemptEnded)
    assert (end.outcome.reason, end.next, end.charged) == ("interrupted", "queued", False)


@looped(task("a", linger_s=10.0), task("b"))
async def test_a_slot_is_free_only_when_the_whole_tree_is_gone(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end_leader(rig.token("a"))
    await rig.settle()
    assert rig.started == ["a"]
    rig.launcher.end_tree(rig.token("a"))
    await rig.settle()
    assert rig.started == ["a", "b"]
    assert isinstance(rig["b"].phase, Running)


@looped(*(task(f"cpu{number}", gpus=0) for number in range(4)))
async def test_ends_that_come_together_share_a_commit(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    before = rig.journal.durable_appends
    for number in range(4):
        rig.launcher.end(rig.token(f"cpu{number}"))
    await rig.settle()
    assert rig.journal.durable_appends == before + 1
    assert len(rig.facts(AttemptEnded)) == 4


@looped(task("a"))
async def test_a_loop_that_was_stopped_starts_nothing_and_still_tells_what_was_written(rig: LoopRig) -> None:
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    rig.loop.stop()
    rig.journal.close()
    await rig.settle()
    assert rig.launcher.orders == []
    assert rig.published == rig.journal.facts


@looped(task("a"))
async def test_what_reaches_a_stopped_loop_is_not_said_to_be_done(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.loop.post(Verb("hold", ("a",)))
    rig.loop.stop()
    rig.journal.close()
    with pytest.raises(EngineUnavailableError, match="ask again"):
        await rig.loop.taken()
    assert not rig["a"].held


@looped(task("a", retries=1, backoff_s=600.0))
async def test_a_wait_is_over_when_its_time_has_come_by_the_clock_that_counts_sleep(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end(rig.token("a"), 1)
    await rig.settle()
    assert isinstance(rig["a"].phase, Backoff)
    assert rig.alarm.at == rig["a"].phase.until
    rig.clock.boot_s = rig["a"].phase.until  # the box slept: asyncio's own clock has not gone on
    rig.alarm.ring()
    await rig.settle()
    assert rig.started == ["a", "a"]


@looped(task("a"))
async def test_a_journal_that_broke_is_told_as_the_reason_why_nothing_starts(rig: LoopRig) -> None:
    rig.journal.break_down()
    rig.begin()
    await rig.settle()
    assert rig.deck.unwritable == "the disk failed; start gpudeck again once the disk is sound"


@looped(task("a"))
async def test_a_process_id_that_a_full_disk_did_not_take_is_written_later(rig: LoopRig) -> None:
    rig.journal.hold()
    rig.begin()
    await rig.settle()
    rig.journal.release()
    rig.journal.fill()
    await rig.settle()
    assert isinstance(rig["a"].phase, Running)
    rig.journal.free()
    assert len(rig.facts(AttemptRunning)) == 1


@looped(task("a", timeout_s=100.0))
async def test_nothing_wakes_a_loop_that_was_stopped(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    assert rig.alarm.at is not None
    rig.loop.stop()
    assert rig.alarm.at is None


@looped(task("a", timeout_s=100.0))
async def test_an_alarm_that_rings_too_early_is_set_again(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    due, rig.alarm.at = rig.alarm.at, None
    rig.alarm.ring()
    await rig.settle()
    assert rig.alarm.at == due


@looped(task("a"))
async def test_what_was_asked_for_is_said_to_be_done_once_it_is_on_disk(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.hold()
    rig.loop.post(Verb("hold", ("a",)))
    taken = asyncio.ensure_future(rig.loop.taken())
    await rig.settle()
    assert not taken.done()
    rig.journal.release()
    await taken


@looped(*(task(f"t{number}") for number in range(3000)))
async def test_what_was_asked_of_many_tasks_is_said_to_be_done_with_the_last_of_them(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.loop.post(Verb("hold", tuple(rig.deck.by_name)))
    await rig.loop.taken()
    assert rig["t2999"].held


@looped(task("a"))
async def test_what_leads_to_no_fact_waits_for_what_came_before_it(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.journal.hold()
    rig.loop.post(Verb("cancel", ("a",)))
    await rig.settle()
    rig.loop.post(Verb("kill", ("a",)))
    await rig.settle()
    assert rig.launcher.stops == []
    rig.journal.release()
    await rig.settle()
    assert [stop.signal for stop in rig.launcher.stops] == [signal.SIGTERM, signal.SIGKILL]


@looped(task("a", outputs=("model.pt",)))
async def test_a_start_whose_folders_are_still_being_looked_at_never_begins_once_it_is_cancelled(rig: LoopRig) -> None:
    rig.starters.hold()
    rig.begin()
    await rig.settle()
    rig.loop.post(Verb("cancel", ("a",)))
    await rig.settle()
    assert isinstance(rig["a"].phase, Cancelled)
    rig.starters.release()
    await rig.settle()
    assert rig.launcher.orders == []


@looped(task("a"))
async def test_what_an_attempt_executes_is_forgotten_with_its_end(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    token = rig.token("a")
    assert rig.attempts.running.command(token) == ("true", False)
    rig.launcher.end(token)
    await rig.settle()
    (end,) = rig.facts(AttemptEnded)
    rig.attempts.ends.ended(end, rig.facts(AttemptStarting)[0])
    assert rig.attempts.running.command(token) == ("", False)


@looped(task("a"))
async def test_what_an_ended_task_left_is_told_of_where_something_lives(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end_leader(rig.token("a"))
    await rig.settle()
    await rig.later(11)
    assert rig.notices == ["a has ended and left processes behind; they are stopped (leftovers)"]


@looped(task("a"))
async def test_of_an_ended_task_of_which_nobody_knows_what_lives_nothing_is_told(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.end_leader(rig.token("a"))
    del rig.launcher.pids[rig.token("a")]
    await rig.settle()
    await rig.later(11)
    assert (len(rig.launcher.stops), rig.notices) == (1, [])
