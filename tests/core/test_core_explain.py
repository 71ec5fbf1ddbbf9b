"""Why it waits, in words."""

from __future__ import annotations

import re

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.explain import Explainer, explain
from gpudeck.engine.core.spec import DeckSettings, TaskSpec
from gpudeck.engine.core.why_waiting import only_a_user_helps, why_waiting


def texts(found: World, name: str) -> list[str]:
    return [obstacle.text for obstacle in explain(found.deck, found.task(name), found.now)]


def test_a_taken_gpu_names_the_task_that_is_on_it() -> None:
    found = world(spec("a"), spec("b"))
    (obstacle,) = explain(found.deck, found.task("b"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("GPU 0: 1 of 1 slots taken", ("a",))


def test_a_task_that_wants_a_gpu_alone_is_named_as_such() -> None:
    found = world(spec("a", exclusive=True), spec("b"), slots=2)
    (obstacle,) = explain(found.deck, found.task("b"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("GPU 0: the task on it wants it alone", ("a",))


def test_a_need_is_named() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    assert texts(found, "b") == ["waits for a"]


def test_a_hold_and_a_pause_are_said() -> None:
    found = world(spec("a"), spec("b"), spec("c"))
    found.verb("hold", "b")
    found.verb("pause")
    assert (texts(found, "b"), texts(found, "c")) == (["held by the user"], ["the deck is paused"])


def test_a_backoff_says_how_long() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    (text,) = texts(found, "a")
    assert text.startswith("tried again in ")
    assert re.search(r"\d+s \(exit\)$", text)


def test_a_limit_of_the_entry_names_who_runs() -> None:
    found = world(spec("a0", max_parallel=1), spec("a1", max_parallel=1), gpus=2)
    (obstacle,) = explain(found.deck, found.task("a1"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("max_parallel = 1 of a run", ("a0",))


def test_keep_free_is_said_and_names_who_has_the_others() -> None:
    found = world(spec("a"), spec("cpu", gpus=0), spec("b"), gpus=2, settings=DeckSettings(keep_free=1))
    obstacle = explain(found.deck, found.task("b"), found.now)[0]
    assert (obstacle.text, obstacle.tasks) == ("1 GPUs are left to others", ("a",))


def test_outputs_that_are_being_looked_at_are_said_to_be_whose_they_are() -> None:
    found = world(spec("made", outputs=("/m",)), spec("b", needs=("made",)), begin=False)
    found.slow_checks = True
    found.begin()
    assert texts(found, "made") == ["its outputs are being looked at"]
    found.slow_checks = False
    found.answer_checks()
    found.settle()
    found.end("made")
    found.end("b", 1)
    found.begin(("failed",))
    found.slow_checks = True
    found.end("b", 1)
    found.verb("retry", "b")
    assert texts(found, "b") == ["the outputs of what it needs are being looked at"]


def test_every_gpu_of_a_waiting_gang_says_what_keeps_it() -> None:
    found = world(spec("a"), spec("gang", gpus=3), gpus=3)
    found.stranger("GPU-1")
    found.give(i.GpuVerb("drain", "GPU-2"))
    found.sample()
    assert texts(found, "gang") == [
        "needs 3 GPUs at once, 0 are free for it",
        "GPU 0: 1 of 1 slots taken",
        "GPU 1: alice, pid 4711, 9.8 GiB",
        "GPU 2: drained",
    ]


def test_a_lost_gpu_is_said_in_the_drivers_words() -> None:
    found = world(spec("a"), begin=False)
    found.gone_gpus.add("GPU-0")
    found.sample()
    found.begin()
    assert texts(found, "a") == ["GPU 0: lost (GPU is lost)"]


def test_what_runs_or_is_done_waits_for_nothing() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.end("a")
    assert (texts(found, "a"), texts(found, "b")) == ([], [])


def test_the_commonest_reasons_are_summed_up() -> None:
    found = world(spec("a"), *[spec(f"b{index}", needs=("a",)) for index in range(3)])
    assert why_waiting(found.deck, found.now) == ["3 waiting: waits for a"]


def test_an_explainer_gives_the_same_first_reason_as_explain() -> None:
    tasks = [spec("bad"), *[spec(f"b{index}", needs=("bad",)) for index in range(3)], spec("x", cpus=16), spec("y")]
    found = world(*tasks, spec("z", gpus=0, cpus=4))
    found.end("bad", 1)
    explainer = Explainer(found.deck, found.now)
    for task in found.deck.tasks:
        assert explainer.why(task) == next(iter(texts(found, task.name)), "")


def test_why_a_task_is_blocked_is_said_after_the_run_too() -> None:
    found = world(spec("bad"), spec("b", needs=("bad",)))
    found.end("bad", 1)
    assert found.deck.run.ended
    assert Explainer(found.deck, found.now).why(found.task("b")) == "needs bad, which did not succeed"


def test_what_a_finished_run_has_left_blocked_says_what_blocks_it_and_no_more() -> None:
    found = world(spec("bad"), spec("b", needs=("bad",)))
    found.end("bad", 1)
    assert texts(found, "b") == ["needs bad, which did not succeed"]


def test_a_gate_with_many_failures_names_five_and_counts_the_rest() -> None:
    found = world(*[spec(f"a{index}") for index in range(8)], spec("last", needs=("a*",)), gpus=8)
    for index in range(7):
        found.end(f"a{index}", 1)
    assert texts(found, "last") == ["needs a0, a1, a2, a3, a4 and 2 more, which did not succeed"]


def test_tasks_that_become_blocked_are_listed_for_whoever_tells_of_them() -> None:
    found = world(spec("bad"), spec("b", needs=("bad",)), spec("c", needs=("b",)), spec("d"))
    assert found.deck.newly_blocked == []
    found.end("bad", 1)
    assert [found.deck.tasks[index].name for index in found.deck.newly_blocked] == ["b", "c"]


def test_gates_that_are_not_open_are_known_without_a_search() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", round=1), gpus=2)
    assert {gate.label for gate in found.deck.closed} == {"a", "round 0"}
    found.end("a")
    found.end("b")
    assert found.deck.closed == {}


def stuck(*tasks: TaskSpec, settings: DeckSettings | None = None, gpus: int = 1, slots: int = 1) -> World:
    """The first task has become one of which nothing can be proven."""
    found = world(*tasks, gpus=gpus, slots=slots, settings=settings, cores=8)
    found.restart(unproven=lambda _: True)
    return found


@pytest.mark.parametrize(
    "waits",
    [
        spec("b"),
        spec("b", exclusive=True),
        spec("b", gpu_memory_mib=20_000),
        spec("b", gpus=0, cpus=8),
        spec("b", entry="a", gpus=0, max_parallel=1),
    ],
    ids=["slots", "exclusive", "gpu_memory", "cpus", "max_parallel"],
)
def test_a_deck_is_stuck_when_all_wait_for_what_an_unknown_attempt_holds(waits: TaskSpec) -> None:
    slots = 1 if waits.resources == spec("x").resources else 2
    found = stuck(spec("a", gpu_memory_mib=20_000, cpus=4), waits, slots=slots)
    assert found.phase("b") == "queued"
    assert only_a_user_helps(found.deck, found.now)


def test_it_is_not_stuck_while_something_runs() -> None:
    found = world(spec("a"), spec("b"), spec("c"), gpus=2)
    found.restart(unproven=lambda proc: proc.task == "a")
    assert not only_a_user_helps(found.deck, found.now)


@pytest.mark.parametrize("why", ["foreign", "lost", "quarantined"])
def test_it_is_not_stuck_where_a_gpu_may_come_back_by_itself(why: str) -> None:
    found = world(spec("a", gpu_ids=("0",)), spec("b"), spec("c"), gpus=2)
    found.end("b", 1)
    found.end("c", 1)
    found.verb("pause")
    if why == "foreign":
        found.stranger("GPU-1")
    elif why == "lost":
        found.gone_gpus.add("GPU-1")
    else:
        found.facts.append(e.GpuQuarantined("GPU-1", (), found.now, found.now + 60, 0))
    found.restart(unproven=lambda _: True)
    found.sample()
    found.verb("retry", "b")
    found.verb("unpause")
    assert found.phase("b") == "queued"
    assert not only_a_user_helps(found.deck, found.now)


def test_it_is_not_stuck_while_a_task_is_in_backoff() -> None:
    found = world(spec("a"), spec("b"), spec("c", gpus=0, retries=1, backoff_s=60.0))
    found.end("c", 1)
    found.restart(unproven=lambda _: True)
    assert not only_a_user_helps(found.deck, found.now)


def test_behind_a_drained_gpu_too_only_the_user_helps() -> None:
    found = world(spec("a"), spec("b"), spec("c"), gpus=2)
    found.give(i.GpuVerb("drain", "GPU-1"))
    found.end("b")
    found.restart(unproven=lambda _: True)
    assert only_a_user_helps(found.deck, found.now)


@pytest.mark.parametrize("task", [spec("b"), spec("b", gpus=2), spec("b", gpu_ids=("1",))], ids=["any", "gang", "ids"])
def test_behind_drained_gpus_only_the_user_helps_also_where_nothing_is_under_way(task: TaskSpec) -> None:
    found = world(spec("a"), task, gpus=2, begin=False)
    found.give(i.GpuVerb("drain", "GPU-1"))
    if not task.resources.gpu_ids and task.resources.gpus == 1:
        found.give(i.GpuVerb("drain", "GPU-0"))
    found.begin()
    for proc in found.live():
        found.end(proc.task)
    assert found.phase("b") == "queued"
    assert only_a_user_helps(found.deck, found.now)


def test_it_is_not_stuck_behind_a_drained_gpu_while_another_may_come_back() -> None:
    found = world(spec("a"), gpus=2, begin=False)
    found.stranger("GPU-1")
    found.give(i.GpuVerb("drain", "GPU-0"))
    found.sample()
    found.begin()
    assert found.phase("a") == "queued"
    assert not only_a_user_helps(found.deck, found.now)


def test_it_is_not_stuck_while_the_disk_is_full() -> None:
    found = world(spec("a"), begin=False)
    found.give(i.JournalState(False, "no space left on device"))
    found.begin()
    assert found.phase("a") == "queued"
    assert not only_a_user_helps(found.deck, found.now)


def test_what_is_tried_again_is_told_before_the_round_that_waits_for_it() -> None:
    found = world(spec("a", retries=1, backoff_s=30.0), spec("b", round=1, group="g"), spec("c", round=0, group="g"))
    found.end("a", 1)
    assert re.fullmatch(r"1 waits for its next attempt: a in \d+s", why_waiting(found.deck, found.now)[0])


def test_a_round_that_is_closed_counts_what_failed_apart_from_what_is_blocked_by_that() -> None:
    trains = [spec(f"train{index}") for index in range(2)]
    evals = [spec(f"eval{index}", needs=(f"train{index}",)) for index in range(2)]
    found = world(*evals, *trains, spec("held", after=("eval*",)), spec("last", round=1), gpus=3)
    found.verb("hold", "held")
    for index in range(2):
        found.end(f"train{index}", 1)
    why = "round 0 closed by 2 failed and 2 blocked: train0, train1, eval0, eval1"
    assert texts(found, "last") == [why]
    assert f"1 blocked: {why}" in why_waiting(found.deck, found.now)


def test_a_round_in_which_nothing_failed_itself_is_closed_by_what_is_blocked() -> None:
    found = world(spec("bad"), spec("a", group="g", needs=("bad",)), spec("b", group="g", round=1), spec("c"), gpus=2)
    found.verb("hold", "c")
    found.end("bad", 1)
    assert texts(found, "b")[-1].endswith("round 0 closed by 1 blocked: a")


def test_reasons_that_are_not_told_leave_a_count_of_what_they_keep() -> None:
    trains = [spec(f"train{index}") for index in range(5)]
    evals = [spec(f"eval{index}-{part}", needs=(f"train{index}",)) for index in range(5) for part in "ab"]
    found = world(*trains, *evals, gpus=5)
    for index in range(5):
        found.end(f"train{index}", 1)
    told = why_waiting(found.deck, found.now)
    assert told[0] == "2 blocked: needs train0, which did not succeed"
    assert told[-1] == "4 more blocked"


def test_a_task_behind_two_gates_is_counted_once() -> None:
    found = world(spec("a"), spec("b"), spec("c", needs=("a", "b")), gpus=2)
    assert why_waiting(found.deck, found.now) == ["1 waiting: waits for a"]


def test_a_task_that_wants_to_be_alone_is_told_how_many_are_there() -> None:
    found = world(spec("busy"), spec("a", exclusive=True), slots=2)
    assert [obstacle.text for obstacle in explain(found.deck, found.task("a"), found.now)] == [
        "GPU 0: wanted alone, 1 on it"
    ]


def test_taken_cpu_slots_are_counted() -> None:
    found = world(spec("a", gpus=0), spec("b", gpus=0), settings=DeckSettings(cpu_slots=1))
    assert [obstacle.text for obstacle in explain(found.deck, found.task("b"), found.now)] == [
        "1 of 1 CPU slots are taken"
    ]


def test_cpu_slots_that_are_free_and_too_few_are_not_counted_as_taken() -> None:
    found = world(spec("a"), spec("b", gpus=3), on_cpu=True, settings=DeckSettings(cpu_slots=3))
    assert [obstacle.text for obstacle in explain(found.deck, found.task("b"), found.now)] == [
        "1 of 3 CPU slots are taken"
    ]


def test_before_its_first_start_a_deck_says_that_it_has_not_been_started() -> None:
    found = world(spec("a"), begin=False)
    assert [obstacle.text for obstacle in explain(found.deck, found.task("a"), found.now)] == [
        "the deck has not been started yet"
    ]
