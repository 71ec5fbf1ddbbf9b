"""A deck on a cluster: what is submitted, in which order, what is told of pending jobs, when time begins to count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_cluster import cluster
from core_world import World, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.build import build
from gpudeck.engine.core.effects import Stop, Warn
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.fit import memory_in_words
from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.core.why_waiting import why_waiting


def why(found: World, name: str) -> list[str]:
    return [obstacle.text for obstacle in explain(found.deck, found.task(name), found.now, lambda wall: f"{wall:g}")]


# -- what is submitted ------------------------------------------------------------------------------------------------


def test_no_more_jobs_than_max_submitted_are_given_to_the_cluster_at_once():
    found = cluster(*[spec(f"t{number}") for number in range(5)], jobs=2)
    assert list(found.running()) == ["t0", "t1"]
    found.end("t0")
    assert list(found.running()) == ["t1", "t2"]


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus": 0},
        {"gpus": 64},
        {"gpus": "all"},
        {"gpus": 1, "gpu_ids": ("7",)},
        {"gpu_memory_mib": 900_000},
        {"gpu_memory_mib": "auto"},
        {"cpus": 500},
        {"memory_mib": 9_000_000},
        {"exclusive": True},
    ],
)
def test_a_task_takes_one_job_whatever_it_asks_for(asked: dict[str, object]):
    found = cluster(*[spec(f"t{number}", **asked) for number in range(3)], jobs=2)
    assert list(found.running()) == ["t0", "t1"]


def test_gpus_of_this_box_are_none_of_the_decks():
    file = deck_file([spec("a")], DeckSettings(backend="slurm", max_submitted=3, cpu_slots=1))
    deck = build(file, gpus=world(spec("x"), begin=False).make_gpus(), cores=2, on_cpu=True)
    assert (deck.gpus, deck.outside, deck.on_cpu, deck.cluster) == ({}, {}, False, 3)


def test_a_deck_on_this_box_has_no_cluster():
    assert world(spec("a")).deck.cluster == 0


def test_max_parallel_holds_on_a_cluster():
    found = cluster(*[spec(f"t{number}", max_parallel=1) for number in range(3)], spec("z"), jobs=3)
    assert list(found.running()) == ["t0", "z"]
    assert why(found, "t1") == ["max_parallel = 1 of t run"]


def test_jobs_are_submitted_by_priority_and_then_in_the_files_order():
    low, high = [spec(f"a{number}") for number in range(3)], [spec(f"b{number}", priority=5) for number in range(3)]
    found = cluster(*low, *high, jobs=1)
    for _ in range(5):
        (name,) = found.running()
        found.end(name)
    assert [launch.task for launch in found.launched] == ["b0", "b1", "b2", "a0", "a1", "a2"]


def test_a_task_with_open_needs_is_not_submitted():
    found = cluster(spec("a"), spec("b", needs=("a",)), jobs=5)
    assert list(found.running()) == ["a"]


def test_fewer_jobs_than_run_are_waited_for_and_not_replaced():
    found = cluster(*[spec(f"t{number}") for number in range(4)], jobs=3)
    fewer = replace(found.file, settings=replace(found.file.settings, max_submitted=1))
    found.restart(file=fewer)
    found.end("t0")
    found.end("t1")
    assert list(found.running()) == ["t2"]
    found.end("t2")
    assert list(found.running()) == ["t3"]


def test_cores_of_this_box_are_not_counted_for_jobs():
    assert cluster(spec("a", cpus=8)).deck.cores_used == 0


def test_nothing_is_said_of_gpu_memory_on_a_cluster():
    found = cluster(spec("a", gpu_memory_mib="auto"))
    assert memory_in_words(found.deck, found.task("a")) == ""


# -- what people are told ---------------------------------------------------------------------------------------------


def test_a_task_that_is_one_too_many_names_max_submitted():
    found = cluster(spec("a"), spec("b"), spec("c"), jobs=2)
    assert why(found, "c") == ["2 of 2 jobs are submitted; max_submitted = 2"]
    assert "1 queued: 2 of 2 jobs are submitted; max_submitted = 2" in why_waiting(found.deck, found.now)


def test_a_pending_job_tells_why_and_when_it_is_expected_to_begin():
    found = cluster(spec("a"))
    found.waits("a", "Priority", 1405.0)
    assert why(found, "a") == ["Slurm: begins ~1405, Priority"]


def test_a_pending_job_of_which_no_time_is_known_tells_why_alone():
    found = cluster(spec("a"))
    found.waits("a", "Resources")
    assert why(found, "a") == ["Slurm: Resources"]


def test_a_job_of_which_nothing_is_known_yet_tells_its_number():
    assert why(cluster(spec("a")), "a") == ["Slurm: job 100 has not begun"]


def test_a_task_that_is_not_a_job_yet_is_on_its_way():
    found = cluster(spec("a"), begin=False)
    found.begin(settle=False)
    assert why(found, "a") == ["on its way to Slurm"]


def test_a_job_that_has_begun_waits_for_nothing():
    found = cluster(spec("a"))
    found.waits("a", "Priority", 1405.0)
    found.begins("a")
    attempt = found.task("a").attempt()
    assert attempt is not None
    assert (why(found, "a"), attempt.pending, attempt.begins) == ([], "", None)


def test_what_keeps_a_deck_waiting_sums_pending_jobs_up():
    found = cluster(*[spec(f"t{number}") for number in range(3)], jobs=3)
    for name in ("t0", "t1"):
        found.waits(name, "Priority", 1405.0)
    found.waits("t2", "Resources")
    assert why_waiting(found.deck, found.now) == ["2 submitted: Slurm: Priority", "1 submitted: Slurm: Resources"]


def test_why_a_job_waits_is_no_fact():
    found = cluster(spec("a"))
    before = len(found.facts)
    found.waits("a", "Priority")
    assert len(found.facts) == before
    assert found.task("a").index in found.deck.moved


# -- when its time counts ---------------------------------------------------------------------------------------------


def test_a_submitted_task_is_starting_and_known_by_its_job():
    found = cluster(spec("a"))
    assert found.phase("a") == "starting"
    assert found.of(e.AttemptSubmitted) == [e.AttemptSubmitted("a", 1, "100")]


def test_the_same_job_told_twice_is_one_fact():
    found = cluster(spec("a"))
    found.give(i.Submitted(found.proc("a").token, "100"))
    assert len(found.of(e.AttemptSubmitted)) == 1


def test_a_job_counts_from_when_it_began():
    found = cluster(spec("a"))
    found.advance(500.0)
    found.begins("a", ago_s=20.0, nodes=("n1", "n2"))
    (fact,) = found.of(e.AttemptRunning)
    assert fact == e.AttemptRunning("a", 1, 0, 0, 0, "100", ("n1", "n2"), found.now - 20.0, found.wall - 20.0)
    found.advance(80.0)
    found.end("a")
    (ended,) = found.task("a").ended
    assert (ended.duration_s, ended.nodes, ended.job) == (100.0, ("n1", "n2"), "100")


@pytest.mark.parametrize(("ago_s", "began"), [(9_000.0, 500.0), (-60.0, 0.0)])
def test_a_node_with_another_clock_moves_no_beginning_before_the_submission_or_into_the_future(
    ago_s: float, began: float
):
    found = cluster(spec("a"))
    found.advance(500.0)
    found.begins("a", ago_s=ago_s)
    attempt = found.task("a").attempt()
    assert attempt is not None
    assert found.now - attempt.at == began


def test_a_pending_job_is_not_timed_out():
    found = cluster(spec("a", timeout_s=50.0))
    found.advance(5_000.0)
    assert found.phase("a") == "starting"


def test_a_timeout_and_its_warning_count_from_the_beginning():
    found = cluster(spec("a", timeout_s=50.0, warn_signal="USR1", warn_before_s=10.0))
    found.advance(500.0)
    found.begins("a", ago_s=5.0)
    found.advance(34.0)
    assert not [effect for effect in found.effects if isinstance(effect, Warn)]
    found.advance(1.0)
    assert [effect for effect in found.effects if isinstance(effect, Warn)]
    found.advance(9.0)
    assert found.phase("a") == "running"
    found.advance(1.0)
    assert [effect for effect in found.effects if isinstance(effect, Stop)]


def test_a_beginning_told_again_changes_nothing():
    found = cluster(spec("a", timeout_s=50.0))
    found.begins("a")
    before = len(found.facts)
    found.advance(10.0)
    found.begins("a")
    assert len(found.facts) == before
