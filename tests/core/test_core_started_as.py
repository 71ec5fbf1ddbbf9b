"""An attempt is judged by what it was started as, whatever the file says meanwhile."""

from __future__ import annotations

from dataclasses import replace

from core_decks import changed_file
from core_world import done_world, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.spec import Work


def test_an_attempt_is_judged_by_the_outputs_of_its_start() -> None:
    found = world(spec("a"))
    found.reopen(file=changed_file(found.file, "a", outputs=("/new",)))
    found.end("a")
    assert (found.phase("a"), found.of(e.AttemptEnded)[0].outcome.reason) == ("succeeded", "ok")  # pyright: ignore


def test_an_attempt_is_judged_by_the_success_codes_of_its_start() -> None:
    found = world(spec("a", success_codes=frozenset({0, 3})))
    found.reopen(file=changed_file(found.file, "a", success_codes=frozenset({0})))
    found.end("a", 3)
    assert found.phase("a") == "succeeded"


def test_the_outputs_of_its_start_are_known_to_the_next_engine() -> None:
    found = world(spec("a", outputs=("/old",)))
    found.restart(file=changed_file(found.file, "a", outputs=("/new",)))
    assert found.task("a").begun_spec.outputs == ("/old",)


def test_the_same_work_is_judged_by_what_the_file_said_at_its_start_too() -> None:
    found = world(spec("a", success_codes=frozenset({0, 3})))
    (task,) = found.file.tasks
    later = replace(task, outputs=("/new",), policy=replace(task.policy, success_codes=frozenset({0})))
    found.restart(file=replace(found.file, tasks=(later,)))
    assert found.task("a").begun_spec.outputs == ()
    found.end("a", 3)
    assert found.phase("a") == "succeeded"


def test_an_attempt_keeps_the_grace_of_its_start() -> None:
    found = world(spec("a", grace_s=100.0))
    found.restart(file=changed_file(found.file, "a", grace_s=1.0))
    found.verb("cancel", "a")
    assert found.of(e.StopRequested)[0].kill_at == found.now + 100.0  # pyright: ignore


def test_an_attempt_keeps_the_timeout_of_its_start() -> None:
    found = world(spec("a", timeout_s=100.0))
    found.restart(file=changed_file(found.file, "a", timeout_s=None))
    found.advance(101)
    assert [fact.why for fact in found.of(e.StopRequested)] == ["timeout"]  # pyright: ignore


def test_an_unchanged_task_takes_the_timeout_that_the_file_says_now() -> None:
    found = world(spec("a", timeout_s=100.0))
    (task,) = found.file.tasks
    later = replace(task, policy=replace(task.policy, timeout_s=1000.0))
    found.restart(file=replace(found.file, tasks=(later,)))
    found.advance(101)
    assert found.phase("a") == "running"


def test_a_failed_attempt_of_other_work_is_not_tried_again_by_itself() -> None:
    found = world(spec("a", retries=3))
    found.reopen(file=changed_file(found.file, "a"))
    found.end("a", 1)
    assert (found.phase("a"), found.deck.marks.changed) == ("failed", {0})


def test_a_failed_attempt_of_other_work_runs_as_the_file_says_now_when_headless() -> None:
    found = world(spec("a"))
    found.restart(file=changed_file(found.file, "a"))
    found.end("a", 1)
    assert [launch.attempt for launch in found.launched] == [1, 2]


def test_the_on_oom_ladder_of_its_start_decides_after_an_out_of_memory_end() -> None:
    found = world(spec("a", ladder=(Work("small"),)))
    found.restart(file=changed_file(found.file, "a", ladder=()))
    found.oom("a")
    assert found.of(e.AttemptEnded)[0].next == "queued"  # pyright: ignore


def test_terms_are_written_once_for_all_tasks_that_share_them() -> None:
    found = done_world(*[spec(f"a{index}") for index in range(5)], spec("b", retries=2), gpus=6)
    assert [fact.number for fact in found.of(e.TermsFixed)] == [1, 2]  # pyright: ignore


def test_each_task_keeps_the_terms_of_its_own_start() -> None:
    found = world(spec("a", success_codes=frozenset({7})), spec("b", success_codes=frozenset({9})), gpus=2)
    file = changed_file(found.file, "a", success_codes=frozenset({0}))
    found.restart(file=changed_file(file, "b", success_codes=frozenset({0})))
    found.end("a", 7)
    found.end("b", 9)
    assert [(fact.task, fact.outcome.ok) for fact in found.of(e.AttemptEnded)] == [("a", True), ("b", True)]  # pyright: ignore
