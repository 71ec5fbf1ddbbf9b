"""A broken GPU must not eat the night."""

from __future__ import annotations

import pytest
from core_world import World, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import GANG_PROBE_S
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings, Halt

FAULT = e.Outcome("exit", 1, detail="CUDA error: ECC", device_fault=True)


def eight(**more: object) -> World:
    return world(*[spec(f"a{index}") for index in range(12)], gpus=2, **more)  # pyright: ignore[reportArgumentType]


def on_gpu(found: World, index: int) -> str:
    return next(name for name, gpus in found.running().items() if gpus == (index,))


def fails_on(found: World, index: int, times: int, outcome: e.Outcome = FAULT) -> list[str]:
    names: list[str] = []
    for _ in range(times):
        names.append(on_gpu(found, index))
        found.end(names[-1], 1, outcome=outcome)
    return names


def is_quarantined(found: World, index: int = 1) -> bool:
    return found.deck.gpus[f"GPU-{index}"].quarantine is not None


def test_three_tasks_with_a_device_fault_in_a_row_quarantine_the_gpu() -> None:
    found = eight()
    fails_on(found, 1, 3)
    assert is_quarantined(found)
    assert list(found.running().values()) == [(0,)]


def test_two_are_not_enough() -> None:
    found = eight()
    fails_on(found, 1, 2)
    assert not is_quarantined(found)


def test_the_three_are_taken_up_again_elsewhere_uncharged() -> None:
    found = eight()
    names = fails_on(found, 1, 3)
    assert {found.phase(name) for name in names} == {"queued"}
    assert found.deck.run.failures == 0


def test_what_a_halt_keeps_from_starting_anew_has_all_its_retries_in_the_next_run() -> None:
    again = [spec(f"a{index}", retries=2, backoff_s=60.0 * index) for index in range(3)]
    found = world(spec("x"), *again, gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a0", 1)
    for _ in range(3):
        fails_on(found, 1, 1)
        found.advance(1)
    found.end("x", 1)
    found.restart()
    found.reopen()
    assert (found.deck.run.ended, found.phase("a0"), is_quarantined(found)) == (True, "waiting", True)
    found.verb("retry", "x")
    found.verb("unpause")
    for _ in range(2):
        while "a0" not in found.running():
            found.end(on_gpu(found, 0))
        found.end("a0", 1)
        assert found.phase("a0") != "failed"
        found.advance(1)


def test_a_failed_task_gets_no_more_than_its_last_attempt_back() -> None:
    found = world(*[spec(f"a{index}", retries=1, backoff_s=0.0) for index in range(3)], gpus=2)
    names = fails_on(found, 1, 1)
    found.advance(1)
    task = found.task(names[0])
    assert task.retries_used == 1


def test_failures_without_a_device_fault_count_where_the_same_entry_runs_well_elsewhere() -> None:
    found = eight()
    found.advance(61)
    fails_on(found, 1, 1, e.Outcome("exit", 1))
    assert not is_quarantined(found)
    fails_on(found, 1, 3, e.Outcome("exit", 1))
    assert is_quarantined(found)


def test_a_broken_environment_quarantines_nothing() -> None:
    found = eight()
    for _ in range(5):
        fails_on(found, 1, 1, e.Outcome("exit", 1))
        fails_on(found, 0, 1, e.Outcome("exit", 1))
    assert not found.of(e.GpuQuarantined)


def test_an_environment_that_broke_hours_ago_elsewhere_quarantines_nothing() -> None:
    found = eight()
    found.advance(100)
    found.end(on_gpu(found, 0))
    found.end(on_gpu(found, 1))
    found.verb("pause")
    for proc in found.live():
        found.end(proc.task)
    found.advance(7200)
    found.verb("unpause")
    for _ in range(3):
        fails_on(found, 1, 1, e.Outcome("exit", 1))
        fails_on(found, 0, 1, e.Outcome("exit", 1))
    assert not found.of(e.GpuQuarantined)


def test_a_success_in_between_ends_the_row() -> None:
    found = eight()
    fails_on(found, 1, 2)
    found.end(on_gpu(found, 1))
    fails_on(found, 1, 2)
    assert not is_quarantined(found)


def test_one_task_that_fails_again_and_again_is_one_task() -> None:
    found = world(spec("a", retries=9, backoff_s=0.0, gpu_ids=("1",)), gpus=2)
    for _ in range(5):
        found.end("a", 1, outcome=FAULT)
        found.advance(1)
    assert not is_quarantined(found)


def test_a_command_that_cannot_be_started_says_nothing_about_the_gpu() -> None:
    found = eight()
    for _ in range(4):
        found.end(on_gpu(found, 1), 127, spawn_error="no such command")
    assert not is_quarantined(found)


def test_never_on_a_box_with_one_gpu() -> None:
    found = world(*[spec(f"a{index}") for index in range(5)])
    fails_on(found, 0, 4)
    assert not is_quarantined(found, 0)


def test_never_on_simulated_gpus() -> None:
    found = eight(simulated=True)
    fails_on(found, 1, 4)
    assert not is_quarantined(found)


def test_the_number_of_tasks_can_be_set_and_zero_switches_it_off() -> None:
    one, off = (eight(settings=DeckSettings(gpu_quarantine=number)) for number in (1, 0))
    fails_on(one, 1, 1)
    fails_on(off, 1, 5)
    assert (is_quarantined(one), is_quarantined(off)) == (True, False)


def test_one_probe_at_a_time_runs_after_a_minute() -> None:
    found = eight()
    found.deck.gpus["GPU-1"].slots = 2
    while not is_quarantined(found):
        fails_on(found, 1, 1)
    for name, gpus in found.running().items():
        if gpus == (1,):
            found.end(name, 1, outcome=e.Outcome("cancelled", 1))
    found.advance(59)
    assert (1,) not in found.running().values()
    found.advance(2)
    assert list(found.running().values()).count((1,)) == 1


def test_a_probe_that_gets_past_a_minute_releases_the_gpu() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.advance(61)
    assert is_quarantined(found)
    found.advance(60)
    assert not is_quarantined(found)


def test_a_probe_that_succeeds_releases_the_gpu() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.advance(61)
    found.end(on_gpu(found, 1))
    assert not is_quarantined(found)


def test_a_probe_whose_start_is_refused_leaves_the_gpu_to_the_next() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.refuse = 1
    found.advance(61)
    found.advance(61)
    found.advance(61)
    assert not is_quarantined(found)


def test_after_a_failed_probe_the_next_comes_later_and_its_task_is_not_charged() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.advance(61)
    (probe,) = fails_on(found, 1, 1)
    assert found.phase(probe) == "queued"
    found.advance(299)
    assert (1,) not in found.running().values()
    found.advance(2)
    assert (1,) in found.running().values()


def with_a_gang(*, first: bool) -> World:
    """GPU 1 rests; *first*: while a task on it and on GPU 0 runs, which began before."""
    gang = spec("gang", gpus=2, gpu_ids=("0", "1"))
    found = world(
        gang, *[spec(f"a{index}", gpu_ids=("1",)) for index in range(4)], gpus=3, slots=1 + first, begin=False
    )
    if not first:
        found.verb("hold", "gang")
    found.begin()
    fails_on(found, 1, 3)
    return found


def test_a_gang_that_was_the_probe_and_fails_puts_the_next_one_off() -> None:
    found = with_a_gang(first=False)
    waiting = found.queued()
    found.verb("hold", *waiting)
    found.verb("release", "gang")
    found.advance(60 + GANG_PROBE_S + 1)
    assert found.running() == {"gang": (0, 1)}
    found.end("gang", 1)
    found.verb("release", *waiting)
    found.advance(299)
    assert (1,) not in found.running().values()
    found.advance(2)
    assert (1,) in found.running().values()


def test_a_gang_that_ran_before_and_fails_puts_no_probe_off() -> None:
    found = with_a_gang(first=True)
    found.end("gang", 1)
    found.advance(61)
    assert (1,) in found.running().values()


def test_a_probe_that_has_failed_and_left_something_running_releases_nothing_after_a_minute() -> None:
    found = world(*[spec(f"a{index}", leftovers="wait") for index in range(12)], gpus=2)
    fails_on(found, 1, 3)
    found.advance(61)
    found.leader_exits(found.proc(on_gpu(found, 1)), 1, outcome=FAULT)
    found.settle()
    found.advance(61)
    assert is_quarantined(found)


def test_the_user_ends_a_quarantine() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.give(i.GpuVerb("enable", "GPU-1"))
    assert (1,) in found.running().values()


def test_a_quarantine_is_explained() -> None:
    found = eight()
    fails_on(found, 1, 3)
    texts = [obstacle.text for obstacle in explain(found.deck, found.task(found.queued()[0]), found.now)]
    assert "GPU 1: quarantined, tasks failed fast on it" in texts


@pytest.mark.parametrize("seconds", [30.0, 61.0])
def test_a_quarantine_and_its_probe_go_on_across_a_restart(seconds: float) -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.advance(seconds)
    found.restart()
    found.advance(61 - seconds)
    found.advance(61)
    assert not is_quarantined(found)


def test_a_retry_that_the_broken_gpu_used_up_is_given_back() -> None:
    found = world(*[spec(f"a{index}", retries=1) for index in range(12)], gpus=2)
    names = fails_on(found, 1, 3)
    assert {found.task(name).retries_used for name in names} == {0}


def test_a_retry_that_the_broken_gpu_used_up_is_given_back_to_a_task_that_runs_again_by_then() -> None:
    found = world(*[spec(f"a{index}", retries=1, backoff_s=10.0) for index in range(12)], gpus=3)
    (first,) = fails_on(found, 1, 1)
    found.advance(13)
    found.end(on_gpu(found, 2))
    assert found.phase(first) == "running"
    fails_on(found, 1, 2)
    assert (is_quarantined(found), found.task(first).retries_used) == (True, 0)


def broken_everywhere(found: World) -> None:
    """Every attempt fails after three seconds with a fault of the device."""
    for _ in range(200):
        if found.deck.run.ended:
            return
        for proc in found.live():
            found.advance(3)
            found.end(proc.task, 1, outcome=FAULT)
        due = found.deck.next_deadline()
        if not found.live() and due is not None and not found.deck.run.ended:
            found.advance(max(0.0, due - found.now))


@pytest.mark.parametrize("limit", [3, 1])
@pytest.mark.parametrize("gpus", [2, 4])
def test_a_command_that_fails_on_every_gpu_fails_in_the_end(gpus: int, limit: int) -> None:
    settings = DeckSettings(gpu_quarantine=limit)
    found = world(*[spec(f"a{index}") for index in range(20)], gpus=gpus, settings=settings)
    began = found.now
    broken_everywhere(found)
    assert found.deck.run.ended
    assert set(found.phases().values()) == {"failed"}
    assert len(found.launched) <= 2 * 20
    assert found.now - began < 600


def test_faults_on_every_gpu_end_the_quarantine_of_each() -> None:
    found = eight()
    fails_on(found, 1, 3)
    fails_on(found, 0, 3)
    assert not is_quarantined(found, 0)
    assert not is_quarantined(found, 1)


def test_an_entry_that_failed_on_every_gpu_accuses_none_until_one_of_its_tasks_does_well() -> None:
    found = world(*[spec(f"a{index}") for index in range(30)], gpus=2)
    fails_on(found, 1, 3)
    fails_on(found, 0, 3)
    fails_on(found, 1, 3)
    assert not is_quarantined(found)
    found.end(on_gpu(found, 0))
    fails_on(found, 1, 3)
    assert is_quarantined(found)


def test_a_task_is_taken_up_again_for_a_quarantine_once_in_a_run() -> None:
    found = world(*[spec(f"a{index}") for index in range(9)], gpus=3, settings=DeckSettings(gpu_quarantine=1))
    (name,) = fails_on(found, 1, 1)
    assert found.phase(name) == "queued"
    found.end(on_gpu(found, 0))
    assert found.running()[name] == (0,)
    found.end(name, 1, outcome=FAULT)
    assert is_quarantined(found, 0)
    assert found.phase(name) == "failed"


def test_a_task_that_failed_on_a_quarantined_gpu_does_not_probe_it_while_it_can_have_another() -> None:
    found = world(*[spec(f"a{index}") for index in range(4)], gpus=2)
    names = fails_on(found, 1, 3)
    found.advance(61)
    assert (1,) not in found.running().values()
    found.end("a0")
    assert found.running() == {names[0]: (0,)}


def test_where_it_can_have_no_other_it_probes_and_fails() -> None:
    found = world(*[spec(f"a{index}", gpu_ids=("1",)) for index in range(3)], gpus=2)
    for name in ("a0", "a1", "a2"):
        found.end(name, 1, outcome=FAULT)
    found.advance(61)
    found.end(on_gpu(found, 1), 1, outcome=FAULT)
    assert sorted(found.phases().values()) == ["failed", "queued", "queued"]


def test_what_a_quarantine_has_given_back_is_known_after_a_restart() -> None:
    found = world(*[spec(f"a{index}") for index in range(9)], gpus=3, settings=DeckSettings(gpu_quarantine=1))
    (name,) = fails_on(found, 1, 1)
    found.restart()
    assert found.task(name).quarantine_requeues == 1


def test_an_environment_that_breaks_under_the_deck_is_blamed_on_the_gpus_once() -> None:
    found = world(*[spec(f"a{index}") for index in range(40)], gpus=2)
    found.advance(100)
    found.end(on_gpu(found, 0))
    found.end(on_gpu(found, 1))
    for _ in range(100):
        for proc in found.live():
            found.advance(1)
            found.end(proc.task, 1, outcome=e.Outcome("exit", 1))
    assert found.deck.run.ended
    assert len(found.of(e.GpuQuarantined)) == 1


def test_commands_that_cannot_be_started_accuse_no_gpu_although_their_entry_runs_elsewhere() -> None:
    found = eight()
    found.advance(61)
    for _ in range(4):
        found.end(on_gpu(found, 1), 127, spawn_error="command not found")
    assert not is_quarantined(found)


def test_a_quarantine_outlives_the_tasks_that_led_to_it() -> None:
    found = eight()
    fails_on(found, 1, 3)
    left = [task for task in found.file.tasks if task.name in ("a10", "a11", on_gpu(found, 0))]
    found.restart(file=deck_file(left))
    assert is_quarantined(found)


def test_a_probe_that_fails_where_no_other_gpu_is_to_be_had_ends_the_quarantine() -> None:
    found = eight()
    fails_on(found, 1, 3)
    found.give(i.GpuVerb("drain", "GPU-0"))
    found.advance(61)
    fails_on(found, 1, 1)
    assert not is_quarantined(found)


def test_a_run_that_begins_after_a_reboot_probes_by_the_new_clock() -> None:
    found = eight()
    fails_on(found, 1, 3)
    while not found.deck.run.ended:
        for proc in found.live():
            found.end(proc.task)
    found.restart(reboot=True)
    found.begin()
    quarantine = found.deck.gpus["GPU-1"].quarantine
    assert quarantine is not None
    assert found.now < quarantine.probe_at <= found.now + 60
