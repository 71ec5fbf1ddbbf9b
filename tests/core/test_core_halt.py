"""halt: when failures stop the deck."""

from __future__ import annotations

from core_world import World, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings, Halt
from gpudeck.engine.core.why_waiting import why_waiting


def halting(halt: Halt, *, count: int = 8, gpus: int = 2, **more: object) -> World:
    return world(*[spec(f"a{index}", **more) for index in range(count)], gpus=gpus, settings=DeckSettings(halt=halt))


def test_soon_starts_nothing_more_and_lets_go_on_what_runs() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    assert found.running() == {"a1": (1,)}


def test_the_rest_says_by_whom_it_is_halted() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    assert [item.text for item in explain(found.deck, found.task("a2"), found.now)] == ["halted by a0"]


def test_a_halted_run_ends_when_nothing_is_left_under_way() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.end("a1")
    assert found.deck.run.ended


def test_what_a_halted_run_has_left_waits_for_the_next_as_it_does_after_a_restart() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.end("a1")
    before = found.phase("a2")
    found.restart()
    assert before == found.phase("a2") == "waiting"


def test_now_also_stops_what_runs_without_charging_it() -> None:
    found = halting(Halt("now", fail=1))
    found.end("a0", 1)
    assert found.phase("a1") == "stopping"
    found.end("a1", 143)
    assert (found.phase("a1"), found.deck.run.ended) == ("waiting", True)


def test_failures_with_a_retry_left_do_not_count() -> None:
    found = halting(Halt("soon", fail=1), retries=1)
    found.end("a0", 1)
    assert found.deck.run.halted == ""


def test_a_halted_run_makes_no_retries() -> None:
    found = world(spec("a"), spec("b", retries=1), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    found.end("b", 1)
    assert found.phase("b") == "failed"


def test_percent_counts_only_from_three_failures_on() -> None:
    found = halting(Halt("soon", fail_percent=30.0))
    found.end("a0", 1)
    found.end("a1", 1)
    assert found.deck.run.halted == ""
    found.end("a2", 1)
    assert found.deck.run.halted == "a2"


def test_percent_is_of_the_settled_tasks() -> None:
    found = halting(Halt("soon", fail_percent=50.0), count=20)
    for index in range(5):
        found.end(f"a{index}")
    for index in range(5, 9):
        found.end(f"a{index}", 1)
    assert found.deck.run.halted == ""
    found.end("a9", 1)
    assert found.deck.run.halted == "a9"


def test_cancelled_and_blocked_tasks_do_not_count() -> None:
    found = world(
        spec("a"), spec("b"), spec("c", needs=("a",)), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=2))
    )
    found.verb("cancel", "b")
    found.end("b", 143)
    found.end("a", 1)
    assert (found.phase("c"), found.deck.run.halted) == ("blocked", "")


def test_unpause_lifts_a_halt() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.verb("unpause")
    assert found.running() == {"a1": (1,), "a2": (0,)}


def test_a_lifted_halt_stays_lifted_after_a_restart() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.verb("unpause")
    found.restart()
    assert found.deck.run.halted == ""


def test_unpause_after_a_halted_run_has_ended_begins_another() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.end("a1")
    found.verb("unpause")
    assert (found.deck.run.number, found.phase("a0"), found.running()) == (2, "failed", {"a2": (0,), "a3": (1,)})


def test_nothing_starts_in_a_run_that_has_ended() -> None:
    found = halting(Halt("soon", fail=1))
    found.end("a0", 1)
    found.end("a1")
    started = len(found.launched)
    found.sample()
    found.give(i.GpuVerb("enable", "GPU-0"))
    found.verb("cancel", "a5")
    assert len(found.launched) == started


def test_a_retry_that_a_halt_has_left_waits_on_and_tells_no_time() -> None:
    found = world(spec("a", retries=1), spec("b"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    found.end("b", 1)
    found.advance(700)
    (why,) = [item.text for item in explain(found.deck, found.task("a"), found.now)]
    assert why.startswith("the run was halted by b and has ended")
    assert why_waiting(found.deck, found.now) == ["1 waits for its next attempt"]


def test_a_failure_that_is_retried_by_hand_counts_once() -> None:
    found = halting(Halt("soon", fail=2))
    found.end("a0", 1)
    found.verb("retry", "a0")
    while found.phase("a0") != "running":
        found.end(next(iter(found.running())))
    found.end("a0", 1)
    assert found.deck.run.halted == ""


def test_percent_counts_cached_tasks_as_settled() -> None:
    tasks = [spec(f"c{index}", outputs=("/out",)) for index in range(20)] + [spec(f"a{index}") for index in range(4)]
    found = world(*tasks, gpus=4, settings=DeckSettings(halt=Halt("soon", fail_percent=30.0)), begin=False)
    found.outputs = {f"c{index}" for index in range(20)}
    found.begin()
    for index in range(3):
        found.end(f"a{index}", 1)
    assert found.deck.run.halted == ""


def test_a_task_that_is_tried_again_by_hand_counts_as_settled_once() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    for _ in range(3):
        found.end("a")
        found.verb("retry", "a")
    assert found.deck.run.settled == 0


def test_a_failure_of_an_earlier_run_that_is_tried_again_counts_in_this_one_when_it_fails_again() -> None:
    found = world(spec("a"), spec("b"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    found.end("b")
    found.begin(("new",))
    found.verb("retry", "a")
    assert (found.deck.run.settled, found.deck.run.failures) == (0, 0)
    found.end("a", 1)
    assert found.deck.run.halted == "a"


def test_early_halts_once_so_many_tasks_in_a_row_failed_soon_after_their_start_retried_or_not() -> None:
    found = halting(Halt("soon", early=3), gpus=1, retries=1, backoff_s=60.0)
    for name in ("a0", "a1"):
        found.advance(29)
        found.end(name, 1)
    assert found.deck.run.halted == ""
    found.end("a2", 1)
    assert found.deck.run.halted == "a0, a1, a2 (each within 30s of its start)"
    assert found.running() == {}


def test_what_fails_later_or_succeeds_ends_the_row_of_early_failures() -> None:
    found = halting(Halt("soon", early=2), gpus=1)
    found.end("a0", 1)
    found.end("a1")
    found.end("a2", 1)
    found.advance(31)
    found.end("a3", 1)
    found.end("a4", 1)
    assert found.deck.run.halted == ""
    found.end("a5", 1)
    assert found.deck.run.halted.startswith("a4, a5")


def test_one_task_that_fails_again_and_again_is_one_in_the_row_and_a_cancelled_one_is_none() -> None:
    found = halting(Halt("soon", early=2), count=2, gpus=1, retries=5, backoff_s=1.0)
    found.verb("hold", "a1")
    for _ in range(3):
        found.end("a0", 1)
        found.advance(2)
    assert found.deck.run.halted == ""
