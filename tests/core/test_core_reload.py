"""A deck goes on with another file: what goes over, what changes at once, what waits."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import fields

import pytest
from core_edits import EditedWorld, with_tasks
from core_world import World, cards, deck_file, spec
from test_core_reload_machine import assert_same_as_restored

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core import reload
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.phases import Unknown
from gpudeck.engine.core.reload import After
from gpudeck.engine.core.spec import DeckSettings, Extras, Halt, Metric, TaskSpec, Work
from gpudeck.engine.core.why_waiting import why_waiting
from tests.rigs.invariants import violations


def world(*tasks: TaskSpec, gpus: int = 1, slots: int = 1, settings: DeckSettings | None = None) -> EditedWorld:
    made = EditedWorld(deck_file(tasks, settings), lambda: cards(gpus, slots=slots), cores=8, on_cpu=False)
    made.begin()
    return made


def on_screen(*tasks: TaskSpec) -> EditedWorld:
    """Under a screen's engine, which takes up nothing that was changed."""
    made = EditedWorld(deck_file(tasks), lambda: cards(1), cores=8, on_cpu=False)
    made.begin(("new",))
    return made


def edit(world: EditedWorld, *tasks: TaskSpec, **options: object) -> None:
    world.edit(with_tasks(world.file, *tasks), **options)  # pyright: ignore[reportArgumentType]


def starts(world: World, task: str) -> int:
    return sum(isinstance(fact, e.AttemptStarting) and fact.task == task for fact in world.facts)


def why(world: World, task: str) -> list[str]:
    return [obstacle.text for obstacle in explain(world.deck, world.task(task), world.now)]


def of(facts: Iterable[e.Fact], kind: type[e.Fact]) -> list[e.Fact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def test_a_running_attempt_goes_over_as_it_is():
    w = world(spec("a"), spec("b"))
    attempt = w.task("a").attempt()
    edit(w, spec("new-1"), spec("a"), spec("b"))
    assert w.task("a").attempt() is attempt
    assert w.running() == {"a": (0,)}


def test_whoever_holds_the_deck_sees_the_new_one():
    w = world(spec("a"))
    deck = w.deck
    edit(w, spec("a"), spec("b"))
    assert deck is w.core.deck
    assert list(deck.by_name) == ["a", "b"]


def test_whoever_shows_the_deck_looks_at_all_tasks_of_the_new_one():
    w = world(spec("a"), spec("b", needs=("a",)))
    w.deck.moved.clear()
    edit(w, spec("a"), spec("b", needs=("a",), priority=1))
    assert w.deck.moved == {0, 1}


def test_a_task_that_is_gone_keeps_its_slot_to_its_end_and_is_not_tried_again():
    w = world(spec("a", retries=3), spec("b"))
    edit(w, spec("b"))
    assert w.running() == {"a": (0,)}
    w.end("a", 1)
    assert w.phase("a") == "failed"
    assert w.running() == {"b": (0,)}


def test_a_task_that_is_gone_is_no_part_of_rounds_globs_or_counts():
    w = world(spec("a1"), spec("a2"), spec("b", needs=("a*",)), gpus=2)
    edit(w, spec("a2"), spec("b", needs=("a*",)))
    w.end("a2")
    assert w.phase("b") == "starting" or w.phase("b") == "running"
    assert sum(w.deck.counts.values()) == 2


def test_a_failure_of_a_task_that_is_gone_halts_nothing():
    w = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    edit(w, spec("b"))
    w.end("a", 1)
    assert (w.deck.run.halted, w.phase("b")) == ("", "running")


def test_a_task_that_is_gone_and_comes_back_is_the_same_attempt():
    w = world(spec("a"), spec("b"))
    edit(w, spec("b"))
    edit(w, spec("a"), spec("b"))
    w.end("a")
    assert w.phase("a") == "succeeded"
    assert starts(w, "a") == 1


def test_the_new_name_of_a_running_task_waits_for_it_and_is_done_with_it():
    w = world(spec("old", fingerprint="work"), gpus=2)
    edit(w, spec("new", fingerprint="work"))
    assert why(w, "new") == ["waits for old, which does its work"]
    w.end("old")
    assert w.phase("new") == "cached"


def test_the_new_name_of_a_running_task_runs_where_that_fails():
    w = world(spec("old", fingerprint="work"), gpus=2)
    edit(w, spec("new", fingerprint="work"))
    w.end("old", 1)
    assert w.running() == {"new": (0,)} or w.running() == {"new": (1,)}


def test_two_running_tasks_that_swap_their_names_are_done_without_another_start():
    w = world(spec("a", fingerprint="one"), spec("b", fingerprint="two"), gpus=2)
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"))
    w.end("a")
    w.end("b")
    assert (starts(w, "a"), starts(w, "b")) == (1, 1)


def test_a_running_task_that_swaps_its_name_with_one_that_waits_leaves_none_undone():
    w = on_screen(spec("a", fingerprint="one"), spec("b", fingerprint="two"), spec("c", needs=("a",)))
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"), spec("c", needs=("a",)))
    w.end("a")
    assert w.phases() == {"a": "running", "b": "cached", "c": "waiting"}
    w.end("a")
    assert w.phases() == {"a": "succeeded", "b": "cached", "c": "running"}


def test_a_running_task_that_is_edited_beside_another_of_the_same_work_is_changed_and_waits_for_the_user():
    w = on_screen(spec("a", fingerprint="work"), spec("b", fingerprint="work"))
    edit(w, spec("a", fingerprint="other"), spec("b", fingerprint="work"))
    w.end("a")
    assert w.phase("a") == "succeeded"


def test_two_finished_tasks_that_swap_their_names_are_done():
    w = world(spec("a", fingerprint="one"), spec("b", fingerprint="two"), gpus=2)
    w.end("a")
    w.end("b")
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"), after=After(rerun=("a", "b")))
    assert (w.phase("a"), w.phase("b")) == ("cached", "cached")
    assert not w.deck.marks.changed


def test_work_that_was_done_under_the_name_and_undone_by_an_edit_is_done_again():
    w = world(spec("a", fingerprint="one"), gpus=2)
    w.end("a")
    edit(w, spec("a", fingerprint="two"), after=After(rerun=("a",)))
    w.end("a")
    edit(w, spec("a", fingerprint="one"), after=After(rerun=("a",)))
    assert w.phase("a") == "running"


def test_a_name_that_takes_over_the_work_of_one_that_runs_as_something_else_now_waits_for_it():
    w = world(spec("a", fingerprint="one"), gpus=2)
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"))
    assert why(w, "b") == ["waits for a, which does its work"]
    assert why_waiting(w.deck, w.now) == ["1 queued: waits for a, which does its work"]
    w.end("a")
    assert w.phase("b") == "cached"


@pytest.mark.parametrize(
    ("verbs", "told"), [(("hold", "release"), ["1 queued: waits for a, which does its work"]), (("cancel",), [])]
)
def test_a_name_that_waits_for_running_work_is_counted_once_while_it_waits(verbs: tuple[str, ...], told: list[str]):
    w = world(spec("a", fingerprint="one"), gpus=2)
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"))
    for verb in verbs:
        w.verb(verb, "b")
    assert why_waiting(w.deck, w.now) == told


def test_it_does_the_work_itself_where_that_fails():
    w = world(spec("a", fingerprint="one"), gpus=2)
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"))
    w.end("a", 1)
    assert w.phase("b") == "running"


def test_it_waits_under_the_next_engine_too():
    w = world(spec("a", fingerprint="one"), gpus=2)
    edit(w, spec("a", fingerprint="two"), spec("b", fingerprint="one"))
    w.restart()
    assert why(w, "b") == ["waits for a, which does its work"]


def test_it_waits_where_the_file_was_edited_while_no_engine_ran_too():
    w = world(spec("a", fingerprint="one"), gpus=2)
    w.restart(file=with_tasks(w.file, spec("a", fingerprint="two"), spec("b", fingerprint="one")))
    assert why(w, "b") == ["waits for a, which does its work"]


def test_a_task_with_the_same_work_that_was_there_before_does_not_wait_when_the_other_is_changed():
    w = world(spec("a", fingerprint="work"), spec("b", fingerprint="work"))
    edit(w, spec("a", fingerprint="other"), spec("b", fingerprint="work"), make_gpus=lambda: cards(2))
    assert sorted(w.running()) == ["a", "b"]


def test_a_task_with_the_same_work_that_was_there_before_does_not_wait():
    w = world(spec("a", fingerprint="work"), spec("b", fingerprint="work"))
    edit(w, spec("b", fingerprint="work"), make_gpus=lambda: cards(2))
    assert sorted(w.running()) == ["a", "b"]


def test_a_lowered_timeout_holds_for_what_runs():
    w = world(spec("a", timeout_s=1000.0))
    w.advance(10.0)
    edit(w, spec("a", timeout_s=30.0))
    w.advance(19.0)
    assert w.phase("a") == "running"
    w.advance(2.0)
    assert w.phase("a") == "stopping"


def test_a_timeout_that_was_taken_away_stops_nothing():
    w = world(spec("a", timeout_s=30.0))
    edit(w, spec("a"))
    w.advance(100.0)
    assert w.phase("a") == "running"


def test_an_attempt_of_other_work_keeps_its_own_timeout():
    w = world(spec("a", timeout_s=50.0))
    edit(w, spec("a", timeout_s=5.0, fingerprint="other"))
    w.advance(49.0)
    assert w.phase("a") == "running"
    w.advance(2.0)
    assert w.phase("a") == "stopping"


def test_an_attempt_of_other_work_keeps_its_metrics_through_any_number_of_edits():
    metrics = (Metric("acc", key="acc"),)
    w = world(spec("a", extras=Extras(metrics=metrics)))
    edit(w, spec("a", fingerprint="other"))
    edit(w, spec("a", fingerprint="third"))
    assert w.task("a").begun_spec.extras.metrics == metrics


def test_an_attempt_of_other_work_keeps_its_metrics_where_the_file_was_edited_while_no_engine_ran():
    metrics = (Metric("acc", key="acc"),)
    w = world(spec("a", extras=Extras(metrics=metrics)))
    w.restart(file=with_tasks(w.file, spec("a", fingerprint="other")))
    assert w.task("a").begun_spec.extras.metrics == metrics


def test_an_attempt_is_judged_by_what_it_was_started_as():
    w = world(spec("a", success_codes=frozenset({7})))
    edit(w, spec("a", outputs=("/out",)))
    w.end("a", 7)
    assert w.phase("a") == "succeeded"


def test_what_is_left_behind_is_treated_as_was_said_when_it_was_started():
    w = world(spec("a", leftovers="wait"))
    edit(w, spec("a", leftovers="stop"))
    w.leader_exits(w.proc("a"), 0)
    w.settle()
    w.advance(1000)
    assert w.phase("a") == "closing"
    w.verb("cancel", "a")
    w.advance(100)
    assert w.phase("a") == "cancelled"


def test_more_retries_hold_for_what_runs():
    w = world(spec("a", retries=0))
    edit(w, spec("a", retries=1))
    w.end("a", 1)
    assert w.phase("a") == "backoff"


def test_a_rung_that_is_added_holds_for_what_runs():
    w = world(spec("a"))
    edit(w, spec("a", ladder=(Work("smaller"),)))
    w.oom("a")
    assert (w.phase("a"), w.launched[-1].rung) == ("running", 1)


def test_cores_that_an_attempt_holds_stay_what_it_was_started_with():
    w = world(spec("a", cpus=6), spec("b", cpus=6), gpus=2)
    edit(w, spec("a", cpus=1), spec("b", cpus=6))
    assert w.deck.cores_used == 6
    w.end("a")
    assert w.running() == {"b": (0,)} or w.running() == {"b": (1,)}


def test_fewer_slots_start_nothing_before_the_surplus_is_gone():
    w = world(spec("a"), spec("b"), spec("c"), slots=2)
    w.edit(w.file, make_gpus=lambda: cards(1, slots=1))
    w.end("a")
    assert sorted(w.running()) == ["b"]
    w.end("b")
    assert sorted(w.running()) == ["c"]


def test_a_gpu_that_leaves_is_read_until_what_runs_on_it_has_ended():
    w = world(spec("a"), spec("b"), spec("c"), gpus=2)
    w.edit(w.file, make_gpus=lambda: cards(1))
    assert list(w.deck.leaving) == ["GPU-1"]
    w.proc("b").used_mib = 4321
    w.advance(1)
    w.sample()
    reading, attempt = w.deck.leaving["GPU-1"].reading, w.task("b").attempt()
    assert reading is not None
    assert attempt is not None
    assert (reading.used_mib, attempt.measured) == (4321, {"GPU-1": 4321})
    w.restart()
    assert list(w.deck.leaving["GPU-1"].holders) == [attempt.token]
    w.end("b")
    assert not w.deck.leaving


def test_a_gpu_that_the_deck_no_longer_has_gets_nothing_more():
    w = world(spec("a"), spec("b"), spec("c"), gpus=2)
    w.edit(w.file, make_gpus=lambda: cards(1))
    w.end("a")
    w.end("b")
    assert starts(w, "c") == 1
    assert w.running() == {"c": (0,)}


def test_a_retry_that_waits_runs_at_once_as_what_the_file_says_now():
    w = world(spec("a", retries=1))
    w.end("a", 1)
    assert w.phase("a") == "backoff"
    edit(w, spec("a", retries=1, fingerprint="mended"), after=After(rerun=("a",)))
    assert w.running() == {"a": (0,)}


def test_a_finished_task_of_other_work_is_marked_as_changed():
    w = world(spec("a"), spec("b"))
    w.end("a")
    edit(w, spec("a", fingerprint="other"), spec("b"))
    assert {w.deck.tasks[index].name for index in w.deck.marks.changed} == {"a"}


def test_a_running_task_is_started_anew_on_request_and_is_not_charged():
    w = world(spec("a", retries=1))
    edit(w, spec("a", retries=1, fingerprint="other"), after=After(restart=("a",)))
    assert w.phase("a") == "stopping"
    w.end("a", 143)
    assert w.phase("a") == "running"
    assert w.task("a").retries_used == 0


def test_the_result_of_what_runs_may_be_kept():
    w = world(spec("a"))
    edit(w, spec("a", fingerprint="other"), after=After(accept=("a",)))
    w.end("a")
    assert w.phase("a") == "succeeded"
    assert not w.deck.marks.changed


def test_additions_to_a_deck_whose_run_is_over_begin_another_run_in_which_only_they_start():
    w = world(spec("a"), spec("b"), gpus=2)
    w.end("a", 1)
    w.end("b")
    assert w.deck.run.ended
    edit(w, spec("a"), spec("b"), spec("c"), after=After(begins=("c",)))
    assert w.phases() == {"a": "failed", "b": "succeeded", "c": "running"}


def test_additions_to_a_halted_deck_begin_a_run_in_which_what_the_halt_left_waits():
    w = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    w.end("a", 1)
    assert (w.deck.run.ended, w.deck.run.halted) == (True, "a")
    edit(w, spec("a"), spec("b"), spec("c"), after=After(begins=("c",)))
    assert w.phases() == {"a": "failed", "b": "waiting", "c": "running"}


def test_blocked_tasks_are_not_told_again():
    w = world(spec("a"), spec("b", needs=("a",)))
    w.end("a", 1)
    assert [w.deck.tasks[index].name for index in w.deck.newly_blocked] == ["b"]
    w.deck.newly_blocked.clear()
    edit(w, spec("a"), spec("b", needs=("a",)), spec("c", needs=("a",)))
    assert [w.deck.tasks[index].name for index in w.deck.newly_blocked] == ["c"]


def test_learned_durations_stay():
    w = world(spec("a1"), spec("a2"))
    w.advance(100.0)
    w.end("a1")
    edit(w, spec("a2"), spec("a3"))
    assert w.deck.expected_s(w.task("a3")) == pytest.approx(100.0)


def test_what_a_task_took_before_its_command_was_edited_tells_nothing_of_its_entry():
    w = world(spec("a1"), spec("a2"), spec("a3"))
    w.advance(100.0)
    w.end("a1")
    w.advance(100.0)
    w.end("a2")
    edit(w, spec("a1", fingerprint="other"), spec("a2"), spec("a3"))
    assert w.deck.expected_s(w.task("a1")) == pytest.approx(100.0)
    edit(w, *(spec(name, fingerprint=f"other {name}") for name in ("a1", "a2", "a3")))
    assert w.deck.expected_s(w.task("a1")) is None
    w.restart()
    assert w.deck.expected_s(w.task("a1")) is None


def test_other_options_hold_from_now_on():
    w = world(spec("a"))
    edit(w, spec("a"), after=After(options="other"))
    assert w.deck.run.options == "other"
    w.restart()
    assert w.deck.run.options == "other"


def test_a_priority_given_by_hand_stays_and_one_of_the_file_is_newer():
    w = world(spec("a"), spec("b"), spec("c"))
    w.verb("priority", "b", "c", value=7)
    edit(w, spec("a"), spec("b", priority=1), spec("c"), after=After(priorities={"b": 1}))
    assert [w.task(name).priority for name in "abc"] == [0, 1, 7]


def test_facts_that_come_while_the_new_deck_is_made_are_not_lost():
    w = world(spec("a"), spec("b"), spec("c"))
    w.begin_edit(with_tasks(w.file, spec("a"), spec("b"), spec("c"), spec("d")))
    w.end("a")
    w.verb("hold", "c")
    w.finish_edit()
    assert w.phases() == {"a": "succeeded", "b": "running", "c": "queued", "d": "queued"}
    assert w.task("c").held


def test_a_task_that_ends_while_the_deck_with_its_edit_is_made_is_marked_as_changed():
    w = on_screen(spec("a"))
    w.begin_edit(with_tasks(w.file, spec("a", fingerprint="other")))
    w.end("a")
    w.finish_edit()
    assert w.deck.marks.changed == {0}


def test_a_task_that_starts_and_is_gone_while_the_new_deck_is_made_runs_on():
    w = world(spec("a"), spec("b"), spec("c"))
    w.begin_edit(with_tasks(w.file, spec("a"), spec("c")))
    w.end("a")
    assert sorted(w.running()) == ["b"]
    w.finish_edit()
    assert sorted(w.running()) == ["b"]
    w.end("b")
    assert sorted(w.running()) == ["c"]


def test_an_answer_about_the_outputs_of_a_task_that_is_gone_from_the_file_changes_nothing():
    w = EditedWorld(deck_file([spec("a", outputs=("/out",)), spec("b")]), lambda: cards(1), cores=8, on_cpu=False)
    w.slow_checks = True
    w.begin()
    edit(w, spec("b"))
    w.give(i.DoneChecked("a", are_result=True))
    assert list(w.phases()) == ["b"]


def test_what_nobody_can_prove_stays_unknown():
    w = world(spec("a"))
    w.restart(unproven=lambda _: True)
    edit(w, spec("a"), spec("b"))
    assert isinstance(w.task("a").phase, Unknown)
    assert w.phase("b") == "queued"


@pytest.mark.parametrize("part", ["carry_gpus", "carry_memory", "carry_deadlines", "carry_news", "_catch_up"])
def test_a_swap_that_fails_leaves_the_deck_as_it_was(part: str, monkeypatch: pytest.MonkeyPatch):
    w = world(spec("a", cpus=2), spec("gone"), spec("c"), gpus=2)
    before = {one.name: deepcopy(getattr(w.deck, one.name)) for one in fields(Deck) if one.name in ("counts", "run")}

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(reload, part, fail)
    with pytest.raises(RuntimeError, match="a bug"):
        edit(w, spec("a", cpus=5, fingerprint="other"), spec("c"))
    assert violations(w.deck) == []
    assert {name: getattr(w.deck, name) for name in before} == before
    w.end("a")
    w.end("gone")
    assert w.running() == {"c": (0,)} or w.running() == {"c": (1,)}


def test_a_shrunk_file_with_a_new_order_keeps_positions_straight():
    w = world(*(spec(f"t{number}") for number in range(6)))
    edit(w, *(spec(f"t{number}") for number in (5, 3, 0)))
    w.end("t0")
    assert sorted(w.running()) == ["t5"]
    w.end("t5")
    assert sorted(w.running()) == ["t3"]


def test_many_finished_tasks_run_again():
    names = [f"t{number}" for number in range(20)]
    w = EditedWorld(deck_file(map(spec, names)), lambda: cards(4), cores=8, on_cpu=False)
    w.begin()
    for name in names:
        w.end(name)
    assert w.deck.run.ended
    edited = [spec(name, fingerprint="other " + name) for name in names]
    edit(w, *edited, after=After(rerun=tuple(names)))
    for name in names:
        w.end(name)
    assert [len(of(w.facts, e.TaskRetried)), len(of(w.facts, e.AttemptStarting))] == [20, 40]


def test_a_gpu_is_judged_though_a_task_that_failed_on_it_has_left_the_file() -> None:
    tasks = [spec(f"a{index}") for index in range(8)]
    w = world(*tasks, gpus=2)
    fault = e.Outcome("exit", 1, detail="CUDA error: ECC", device_fault=True)

    def fails_on_the_second() -> str:
        name = next(name for name, gpus in w.running().items() if gpus == (1,))
        w.end(name, 1, outcome=fault)
        return name

    gone = fails_on_the_second()
    edit(w, *(task for task in tasks if task.name != gone))
    fails_on_the_second()
    fails_on_the_second()
    assert w.deck.gpus["GPU-1"].quarantine is not None


def test_a_task_that_is_gone_is_still_the_one_that_tries_a_suspect_gpu() -> None:
    tasks = [spec(f"a{index}") for index in range(6)]
    w = world(*tasks, gpus=2, settings=DeckSettings(gpu_quarantine=1))
    w.end("a1", 1, outcome=e.Outcome("exit", 1, device_fault=True))
    w.advance(61)
    assert w.running() == {"a0": (0,), "a2": (1,)}
    edit(w, *(task for task in tasks if task.name != "a2"), make_gpus=lambda: cards(2, slots=2))
    assert [name for name, gpus in w.running().items() if gpus == (1,)] == ["a2"]
    assert_same_as_restored(w)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gpu_that_leaves_and_comes_back_is_still_tried_by_what_runs_there(restarts: bool) -> None:
    tasks = [spec(f"a{index}") for index in range(6)]
    w = world(*tasks, gpus=2, settings=DeckSettings(gpu_quarantine=1))
    w.end("a1", 1, outcome=e.Outcome("exit", 1, device_fault=True))
    w.advance(61)
    edit(w, *(task for task in tasks if task.name != "a2"), make_gpus=lambda: cards(1))
    if restarts:
        w.restart()
    w.edit(w.file, make_gpus=lambda: cards(2, slots=2))
    assert [name for name, gpus in w.running().items() if gpus == (1,)] == ["a2"]
    assert_same_as_restored(w)
