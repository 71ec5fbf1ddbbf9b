"""Large decks: what one step changes reaches every task behind it."""

from __future__ import annotations

import pytest
from core_world import spec, world

from gpudeck.engine.core import dispatch
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Launch
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.turn import Step
from tests.rigs.invariants import violations


def test_a_closed_gate_reaches_all_behind_it() -> None:
    found = world(spec("first"), *[spec(f"b{index}", needs=("first",)) for index in range(1000)])
    found.end("first", 1)
    assert sum(phase == "blocked" for phase in found.phases().values()) == 1000


def test_a_gate_that_shuts_and_opens_again_leaves_all_behind_it_waiting() -> None:
    found = world(spec("first"), *[spec(f"b{index}", needs=("first",)) for index in range(1000)])
    found.end("first", 1)
    found.give(i.Verb("retry", ("first",)))
    assert violations(found.deck) == []
    assert sum(phase == "waiting" for phase in found.phases().values()) >= 990


def test_what_comes_in_portions_starts_once_all_has_come_the_most_urgent_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "AT_ONCE", 2)
    found = world(*[spec(f"a{index}") for index in range(5)], spec("urgent", priority=1), begin=False)
    found.begin(settle=False)
    steps: list[Step] = []
    for _ in range(2):
        assert found.deck.next_deadline() == found.now
        steps.append(found.core.step((), at=found.now, wall=found.wall))
    launched = [[each.task for each in step.effects if isinstance(each, Launch)] for step in steps]
    assert (found.launched, launched) == ([], [[], ["urgent"]])


def test_verbs_on_many_tasks_keep_their_order() -> None:
    found = world(*[spec(f"a{index}") for index in range(1000)])
    names = tuple(f"a{index}" for index in range(1, 1000))
    found.give(i.Verb("hold", names), i.Verb("release", names))
    assert not any(task.held for task in found.deck.tasks)


def test_retrying_many_tasks_takes_them_all_up() -> None:
    found = world(*[spec(f"a{index}") for index in range(1000)])
    names = tuple(f"a{index}" for index in range(1, 1000))
    found.give(i.Verb("cancel", names))
    found.give(i.Verb("retry", names))
    assert len(found.queued()) == 999


def test_the_first_known_length_of_an_entry_moves_all_its_tasks_in_the_queue() -> None:
    found = world(*[spec(f"a{index}") for index in range(400)])
    found.advance(100)
    found.end("a0")
    assert {shape.length for _, shape in found.deck.queue.heads()} == {6}


@pytest.mark.parametrize(("took_s", "next_runs"), [(60, True), (3400, False)])
def test_a_task_of_a_large_entry_fills_in_where_it_ends_in_time_as_soon_as_one_has_told(
    took_s: int, next_runs: bool
) -> None:
    found = world(
        spec("long"), spec("gang", gpus=2), *[spec(f"s{index}") for index in range(1000)], gpus=2, begin=False
    )
    found.deck.learned.success(found.task("long").spec.fingerprint, 3600.0)
    found.begin()
    assert found.running() == {"long": (0,), "s0": (1,)}
    found.advance(took_s)
    found.end("s0")
    assert ("s1" in found.running()) is next_runs


def test_a_plan_starts_every_task_of_a_deck_that_can_run() -> None:
    found = world(*[spec(f"a{index}") for index in range(12)], spec("gang", gpus=4), gpus=4, begin=False)
    planned = simulate(found.deck, lambda _: 100.0)
    assert len(planned) == 13
    assert max(item.end_s for item in planned) == 400.0


def test_a_plan_leaves_out_what_would_never_start() -> None:
    found = world(spec("a"), spec("big", gpu_memory_mib=99_000), begin=False)
    assert [item.task for item in simulate(found.deck, lambda _: 100.0)] == ["a"]


def test_a_plan_leaves_out_what_its_outputs_show_as_done() -> None:
    found = world(spec("a"), spec("b", outputs=("/out",)), begin=False)
    planned = simulate(found.deck, lambda _: 100.0, done=lambda task: task.name == "b")
    assert [item.task for item in planned] == ["a"]


def test_a_priority_that_many_inherit_reaches_them_all() -> None:
    found = world(*[spec(f"m{index}") for index in range(1000)], spec("t", needs=("m*",)))
    found.verb("priority", "t", value=5)
    assert all(task.effective == 5 for task in found.deck.tasks)
