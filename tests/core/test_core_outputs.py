"""Tasks that are to leave the same output run one after another, and hold up nobody else."""

from __future__ import annotations

from core_world import spec, world

from gpudeck.engine.core.explain import explain


def test_two_tasks_that_name_the_same_output_never_run_at_once() -> None:
    found = world(spec("a", outputs=("/m",)), spec("b", outputs=("/m",)), spec("c"), gpus=3)
    assert set(found.running()) == {"a", "c"}
    (why,) = explain(found.deck, found.task("b"), found.now)
    assert (why.kind, why.text, why.tasks) == ("outputs", "waits for a, which writes /m, too", ("a",))
    found.end("a")
    assert set(found.running()) == {"b", "c"}


def test_a_task_that_waits_for_its_output_keeps_none_of_its_kind_from_starting() -> None:
    both = [spec(name, outputs=("/m",)) for name in ("a", "b")]
    found = world(*both, *[spec(f"c{index}", outputs=(f"/c{index}",)) for index in range(3)], gpus=4)
    assert set(found.running()) == {"a", "c0", "c1", "c2"}
