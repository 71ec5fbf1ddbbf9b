"""What comes after an end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.phases import Backoff
from gpudeck.engine.core.retry import PORT_RETRIES, backoff_s
from gpudeck.engine.core.spec import Resume, Work

LADDER = (Work("small"), Work("smaller"))


def fails(found: World, name: str = "a", code: int | None = 1) -> str:
    """The task fails, and time enough passes for a retry."""
    found.end(name, code)
    found.advance(700)
    return found.phase(name)


def test_retries_are_used_up() -> None:
    found = world(spec("a", retries=2))
    assert [fails(found) for _ in range(3)] == ["running", "running", "failed"]


def test_one_that_is_left_out_while_it_runs_has_spent_nothing_on_the_runs_before() -> None:
    found = world(spec("a", retries=2), spec("b", gpus=0))
    for _ in range(3):
        fails(found)
    found.end("b")
    found.begin()
    found.restart(file=replace(found.file, selected=frozenset(("b",))))
    found.end("a", 1)
    assert found.phase("a") == "backoff"


@pytest.mark.parametrize(
    ("used", "least", "most"), [(0, 8.0, 12.0), (1, 16.0, 24.0), (9, 480.0, 720.0), (5000, 480.0, 720.0)]
)
def test_backoff_doubles_up_to_ten_minutes_give_or_take_a_fifth(used: int, least: float, most: float) -> None:
    waits = [backoff_s(10.0, used, f"token{index}") for index in range(200)]
    assert least <= min(waits) < max(waits) <= most


def test_the_same_token_always_waits_equally_long() -> None:
    assert backoff_s(10.0, 1, "token") == backoff_s(10.0, 1, "token")


def test_a_retry_by_hand_renews_the_budget() -> None:
    found = world(spec("a", retries=1))
    fails(found)
    fails(found)
    found.verb("retry", "a")
    assert fails(found) == "running"


def test_a_retry_by_hand_does_not_wait_for_the_backoff() -> None:
    found = world(spec("a", retries=1, backoff_s=600.0))
    found.end("a", 1)
    found.verb("retry", "a")
    assert found.phase("a") == "running"


@pytest.mark.parametrize("reason", ["exit", "missing output", "stale output", "watch", "oom", "timeout"])
def test_what_counts_as_a_failure_is_retried(reason: e.Reason) -> None:
    found = world(spec("a", retries=1))
    found.end("a", 1, outcome=e.Outcome(reason, 1))
    assert found.phase("a") == "backoff"


def test_a_reason_that_retry_on_leaves_out_is_final() -> None:
    found = world(spec("a", retries=1, retry_on=frozenset({"oom"})))
    assert fails(found) == "failed"


def test_a_signal_is_retried_only_where_asked_for_or_as_a_failure() -> None:
    found = world(spec("a", retries=1, retry_on=frozenset({"signal"})))
    found.end("a", 139, outcome=e.Outcome("signal", 139, 11))
    assert found.phase("a") == "backoff"


def test_a_command_that_cannot_be_started_is_never_tried_again() -> None:
    found = world(spec("a", retries=5))
    found.end("a", 127, spawn_error="no such command: trian.py")
    assert found.phase("a") == "failed"


def test_a_start_that_the_box_refused_is_no_attempt() -> None:
    found = world(spec("a"), begin=False)
    found.refuse = 3
    found.begin()
    found.advance(10)
    assert (found.phase("a"), found.task("a").attempts, len(found.of(e.StartRevoked))) == ("running", 1, 3)


def test_nothing_starts_for_a_moment_after_the_box_refused() -> None:
    found = world(spec("a"), spec("b"), gpus=2, begin=False)
    found.refuse = 2
    found.begin()
    found.advance(1)
    assert found.running() == {}


def test_each_rung_grants_an_attempt_beyond_the_retries() -> None:
    found = world(spec("a", ladder=LADDER))
    found.oom("a")
    found.oom("a")
    found.oom("a")
    assert ([launch.rung for launch in found.launched], found.phase("a")) == ([0, 1, 2], "failed")


def test_the_rung_is_the_number_of_oom_ends_not_of_attempts() -> None:
    found = world(spec("a", ladder=LADDER, retries=1))
    fails(found)
    found.oom("a")
    assert [launch.rung for launch in found.launched] == [0, 0, 1]


def test_without_a_ladder_out_of_memory_uses_a_retry() -> None:
    found = world(spec("a", retries=1))
    found.oom("a")
    assert (found.phase("a"), found.task("a").retries_used) == ("backoff", 1)


def test_an_oom_beside_a_newcomer_uses_no_rung_and_teaches_nothing() -> None:
    found = world(spec("a", ladder=LADDER, gpu_memory_mib="auto"), gpus=2)
    found.advance(1)
    found.stranger("GPU-0")
    found.sample()
    found.oom("a")
    assert (found.launched[-1].rung, found.deck.learned.memory("fp-a", found.task("a").entry)) == (0, None)


def test_what_a_reboot_killed_runs_again_uncharged() -> None:
    found = world(spec("a"))
    found.restart(reboot=True)
    assert (found.phase("a"), found.task("a").retries_used) == ("running", 0)


def test_what_reboots_kill_runs_again_at_most_three_times() -> None:
    found = world(spec("a"))
    for _ in range(4):
        found.restart(reboot=True)
    assert found.phase("a") == "failed"


def test_what_started_after_a_reboot_is_not_taken_for_dead_by_the_next_engine() -> None:
    found = world(spec("a"))
    found.restart(reboot=True)
    found.restart()
    assert (found.phase("a"), len(found.launched), found.deck.run.boot_id) == ("running", 2, "boot'")


def test_a_backoff_does_not_outlast_a_reboot_by_hours() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.now = 1_000_000.0
    found.end("a", 1)
    found.restart(reboot=True)
    found.advance(101)
    assert found.phase("a") == "running"


def test_quarantine_does_not_outlast_a_reboot_by_days() -> None:
    found = world(spec("a"), gpus=2, begin=False)
    found.facts.append(e.GpuQuarantined("GPU-0", (), 1e6, 1e6 + 60, 0))
    found.begin()
    found.restart(reboot=True)
    quarantine = found.deck.gpus["GPU-0"].quarantine
    assert quarantine is not None
    assert quarantine.probe_at == found.now + 60


def test_lost_is_retried_as_such() -> None:
    found = world(spec("a", retries=1))
    assert fails(found, code=None) == "running"


def test_interrupted_by_us_goes_back_uncharged() -> None:
    found = world(spec("a"))
    found.give(i.Shutdown(False, "INT"))
    found.end("a", 143)
    assert (found.phase("a"), found.task("a").retries_used) == ("queued", 0)


def test_resume_is_offered_only_after_an_attempt_that_ran_without_succeeding() -> None:
    found = world(spec("a", retries=1, resume=Resume("again", ())))
    fails(found)
    assert [launch.may_resume for launch in found.launched] == [False, True]


def test_a_command_that_never_ran_leaves_nothing_to_resume() -> None:
    found = world(spec("a", resume=Resume("again", ())))
    found.end("a", 127, spawn_error="no such command")
    found.verb("retry", "a")
    assert [launch.may_resume for launch in found.launched] == [False, False]


def test_a_success_code_other_than_zero_is_a_success() -> None:
    found = world(spec("a", success_codes=frozenset({0, 3})))
    found.end("a", 3)
    assert found.phase("a") == "succeeded"


def test_fast_failures_of_an_entry_are_counted_in_a_row() -> None:
    found = world(*[spec(f"a{index}") for index in range(4)])
    for index in range(3):
        found.end(f"a{index}", 1)
    assert found.task("a0").entry.fast_failures == 3
    found.end("a3")
    assert found.task("a0").entry.fast_failures == 0


def test_a_refused_start_does_not_keep_the_next_engine_waiting() -> None:
    found = world(spec("a"), begin=False)
    found.refuse = 1
    found.begin()
    found.restart()
    assert found.phase("a") == "running"


def ends_across_a_reboot(found: World, name: str, code: int | None) -> None:
    """Its end was written before the power went; the next engine reads it on another boot's clock."""
    proc = found.proc(name)
    proc.leader = proc.tree = False
    proc.exit = i.LeaderExited(proc.token, code, 5.0)
    found.advance(3600)
    found.restart(reboot=True)


@pytest.mark.parametrize("code", [143, 1, None])
def test_what_a_shutdown_interrupted_is_queued_again_after_a_reboot(code: int | None) -> None:
    found = world(spec("a", grace_s=9999.0))
    found.give(i.Shutdown(False, "INT"))
    ends_across_a_reboot(found, "a", code)
    assert found.task("a").ended[-1].outcome.reason == "interrupted"
    assert (found.phase("a"), found.task("a").retries_used) == ("running", 0)


def test_what_the_user_cancelled_stays_cancelled_after_a_reboot() -> None:
    found = world(spec("a", grace_s=9999.0))
    found.verb("cancel", "a")
    ends_across_a_reboot(found, "a", None)
    assert found.phase("a") == "cancelled"


def test_a_task_that_succeeded_before_the_reboot_although_it_was_being_stopped_is_done() -> None:
    found = world(spec("a", grace_s=9999.0))
    found.give(i.Shutdown(False, "INT"))
    ends_across_a_reboot(found, "a", 0)
    assert found.phase("a") == "succeeded"


def test_a_success_across_a_reboot_teaches_no_duration() -> None:
    found = world(spec("a"))
    found.advance(100)
    ends_across_a_reboot(found, "a", 0)
    assert found.phase("a") == "succeeded"
    assert found.deck.learned.seconds("fp-a") is None
    assert found.task("a").entry.typical_s is None
    assert found.task("a").ended[-1].duration_s == 3705.0


@pytest.mark.parametrize("stop", [i.Shutdown(False, "INT"), i.Verb("cancel", ("a",))])
def test_a_start_that_was_refused_while_it_was_being_stopped_leaves_nothing_to_resume(stop: i.Input) -> None:
    found = world(spec("a", resume=Resume("again", ())), begin=False)
    found.refuse = 1
    found.begin(settle=False)
    found.inbox.insert(0, stop)
    found.settle()
    assert found.task("a").ended[-1].outcome.reason in ("interrupted", "cancelled")
    assert found.task("a").unfinished == ""
    found.restart()
    assert found.task("a").unfinished == ""


def test_what_is_left_of_a_backoff_counts_after_a_reboot() -> None:
    found = world(spec("a", retries=1, backoff_s=300.0))
    found.end("a", 1)
    phase = found.task("a").phase
    assert isinstance(phase, Backoff)
    found.advance(200)
    found.restart(reboot=True)
    found.advance(phase.wait_s - 210)
    assert found.phase("a") == "backoff"
    found.advance(10)
    assert found.phase("a") == "running"


def test_a_wall_clock_that_was_set_back_makes_no_backoff_longer() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    found.past -= 100_000
    found.restart(reboot=True)
    found.advance(121)
    assert found.phase("a") == "running"


def test_a_reboot_uses_up_nothing_of_what_a_newcomer_costs() -> None:
    found = world(spec("a"), gpus=2)
    found.restart(reboot=True)
    found.sample()
    found.advance(10)
    found.stranger("GPU-1", 5_000)
    found.sample()
    found.oom("a")
    assert found.running() == {"a": (0,)}


def test_a_port_that_was_taken_is_tried_again_a_few_times_without_using_a_retry() -> None:
    found = world(spec("a", retries=1))
    taken = e.Outcome("port taken", 1, detail="29500")
    phases: list[str] = []
    for _ in range(PORT_RETRIES + 2):
        found.end("a", 1, outcome=taken)
        phases.append(found.phase("a"))
        found.advance(100)
    assert phases == ["backoff"] * (PORT_RETRIES + 1) + ["failed"]
    assert (found.task("a").port_retries, found.task("a").retries_used) == (PORT_RETRIES, 1)


def test_a_port_that_was_taken_speaks_against_no_gpu() -> None:
    found = world(spec("a"), gpus=2)
    found.end("a", 1, outcome=e.Outcome("port taken", 1))
    assert found.task("a").avoid == frozenset()
