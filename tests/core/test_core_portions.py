"""Large decks: work in portions, and nothing lost between two of them."""

from __future__ import annotations

import pytest
from core_world import spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.check import violations
from gpudeck.engine.core.effects import Again
from gpudeck.engine.core.filling import STARTS
from gpudeck.engine.core.readiness import PRESSED
from gpudeck.engine.core.simulate import simulate


def test_a_large_round_opens_in_portions_with_a_sound_deck_in_between() -> None:
    found = world(spec("first"), *[spec(f"b{index}", round=1) for index in range(1000)])
    found.end("first", settle=False)
    queued: list[int] = []
    while found.inbox:
        found.step()
        queued.append(len(found.queued()))
    assert queued[-1] == 999
    assert len([count for count in queued if count < 999]) >= 2


def test_what_one_step_opens_and_what_it_takes_in_are_no_more_than_a_portion() -> None:
    found = world(spec("first"), *[spec(f"b{index}", round=1) for index in range(1000)])
    found.end("first", settle=False)
    done = 0
    while found.inbox:
        found.step()
        before, done = done, len(found.queued()) + found.deck.queue.count
        assert done - before <= found.portion
    assert done >= 2 * 998


def test_an_end_while_a_large_round_opens_is_looked_at_with_little_beside_it() -> None:
    found = world(spec("first"), spec("other"), *[spec(f"b{index}", needs=("first",)) for index in range(1000)], gpus=2)
    found.end("first", settle=False)
    while not found.deck.dirty:
        found.step()
    found.step()
    opened = len(found.queued())
    found.end("other", settle=False)
    found.step()
    assert found.phases()["other"] == "succeeded"
    assert 0 < len(found.queued()) - opened <= PRESSED
    found.settle()
    assert len(found.queued()) == 998


def test_a_closed_gate_reaches_all_behind_it_in_portions() -> None:
    found = world(spec("first"), *[spec(f"b{index}", needs=("first",)) for index in range(1000)])
    found.end("first", 1)
    assert sum(phase == "blocked" for phase in found.phases().values()) == 1000


def test_a_gate_that_changes_again_while_it_spreads_ends_right() -> None:
    found = world(spec("first"), *[spec(f"b{index}", needs=("first",)) for index in range(1000)])
    found.end("first", settle=False)
    found.step()
    found.step()
    found.step(i.Verb("retry", ("first",)))
    found.settle()
    assert violations(found.deck) == []
    assert sum(phase == "waiting" for phase in found.phases().values()) >= 990


def test_no_more_than_a_few_tasks_start_in_one_step() -> None:
    found = world(*[spec(f"a{index}", gpus=0) for index in range(50)], gpus=0, cores=50, begin=False)
    found.begin(settle=False)
    counts = [len(found.launched)]
    while found.inbox:
        found.step()
        counts.append(len(found.launched))
    assert counts[-1] == 50
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) == STARTS


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_a_verb_on_many_tasks_is_done_in_portions(verb: str) -> None:
    found = world(*[spec(f"a{index}") for index in range(1000)])
    names = tuple(f"a{index}" for index in range(1, 1000))
    step = found.step(i.Verb(verb, names))  # pyright: ignore[reportArgumentType]
    assert len(step.facts) <= 400
    assert Again() in step.effects
    found.settle()
    assert all(task.held or found.phase(task.name) == "cancelled" for task in found.deck.tasks[1:])


def test_verbs_keep_their_order_across_portions() -> None:
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
    found = world(*[spec(f"a{index}") for index in range(1000)])
    found.advance(100)
    found.end("a0")
    assert {shape.length for _, shape in found.deck.queue.heads()} == {6}


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


def test_a_priority_that_many_inherit_reaches_them_in_portions() -> None:
    found = world(*[spec(f"m{index}") for index in range(1000)], spec("t", needs=("m*",)))
    found.step(i.Verb("priority", ("t",), 5))
    told = sum(task.effective == 5 for task in found.deck.tasks)
    found.settle()
    assert 0 < told < 1000
    assert all(task.effective == 5 for task in found.deck.tasks)
