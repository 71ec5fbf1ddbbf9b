"""What clients and messages tell of tasks on a cluster."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from core_cluster import Cluster, cluster
from core_world import spec

from gpudeck.engine.core.spec import Extras, Work
from gpudeck.engine.ports import Instant
from gpudeck.engine.protocol import wire
from gpudeck.engine.protocol.states import is_pending, shown_state
from gpudeck.engine.protocol.wire import ClusterRow, TaskRow
from gpudeck.engine.protocol.words import nodes_text
from tests.inside.core import (
    AttemptPaths,
    Box,
    ClusterRows,
    ClusterView,
    DeckView,
    Forecasts,
    Gpus,
    LogFolder,
    Partition,
    Planner,
    TimelineArgs,
    Times,
    UserJob,
    attempts_of,
    counts_of,
    details_of,
    select,
    status_of,
)

TODAY_14_05 = time.mktime((*time.localtime()[:3], 14, 5, 0, 0, 0, -1))


class WorldClock:
    def __init__(self, found: Cluster) -> None:
        self._found = found

    def now(self) -> Instant:
        return Instant(self._found.now, self._found.wall)


def view_of(found: Cluster) -> DeckView:
    return DeckView(
        found.deck, WorldClock(found), file="tasks.toml", infos={}, forecasts=Forecasts(found.deck, lambda: found.now)
    )


def row_of(found: Cluster, name: str) -> TaskRow:
    return view_of(found).rows([found.task(name).index])[0]


def details(found: Cluster, name: str):
    def paths(task: str, number: int) -> AttemptPaths:
        stem = f"/logs/{task}/attempt-{number}"
        return AttemptPaths(f"{stem}.log", f"{stem}.err", f"{stem}.json", f"/logs/{task}")

    planner = Planner(found.deck, LogFolder("/logs"), Box({}, lambda _: "", {}, cpus_each=0))
    return details_of(found.deck, found.task(name), paths, {}, found.now, planner, {})


def test_a_job_that_the_cluster_has_not_begun_is_pending_and_tells_why():
    found = cluster(spec("a"))
    found.waits("a", "Priority", TODAY_14_05)
    row = row_of(found, "a")
    assert (row.state, shown_state(row), row.job) == ("starting", "pending", "100")
    assert row.pending == "begins ~14:05, Priority"


def test_a_beginning_on_another_day_is_told_with_its_day():
    found = cluster(spec("a"))
    found.waits("a", "Priority", TODAY_14_05 + 3 * 86_400)
    day = time.strftime("%-d %b", time.localtime(TODAY_14_05 + 3 * 86_400))
    assert row_of(found, "a").pending == f"begins ~{day} 14:05, Priority"


def test_a_year_that_slurm_reckons_with_for_want_of_a_limit_is_no_expectation():
    found = cluster(spec("a"))
    found.waits("a", "Resources", time.time() + 365 * 86_400)
    assert row_of(found, "a").pending == "Resources"
    assert details(found, "a").waits_for == ("Slurm: Resources",)


def test_a_job_that_runs_tells_its_nodes_and_is_not_pending():
    found = cluster(spec("a"))
    found.waits("a", "Priority")
    found.begins("a", nodes=("node1", "node2"))
    row = row_of(found, "a")
    assert (row.state, row.nodes, row.pending, is_pending(row)) == ("running", ("node1", "node2"), "", False)


def test_where_a_task_ran_stays_in_its_row():
    found = cluster(spec("a"))
    found.begins("a", nodes=("node7",))
    found.end("a")
    row = row_of(found, "a")
    assert (row.state, row.job, row.nodes) == ("succeeded", "100", ("node7",))


def test_pending_tasks_do_not_count_as_running():
    found = cluster(*[spec(name) for name in "abc"], jobs=2)
    found.begins("a")
    counts = counts_of(found.deck)
    assert (counts.running, counts.pending, counts.queued, counts.total) == (1, 1, 1, 3)


def test_a_status_names_the_node_of_what_runs_and_leaves_out_what_is_pending():
    found = cluster(*[spec(name) for name in "ab"], jobs=2)
    found.begins("a")
    status = status_of(found.deck, Times(0.0, 0.0), Instant(found.now, 0.0), lambda _name, _number: "")
    assert [(task.task, task.job, task.nodes) for task in status.running] == [("a", "100", ("node1",))]


def test_slots_of_a_slurm_deck_are_the_jobs_that_it_submits_at_once():
    found = cluster(*[spec(name, gpus=4) for name in "abc"], jobs=7)
    head = view_of(found).head()
    assert (head.backend, head.slots, head.used_slots) == ("slurm", 7, 3)


def test_a_pending_task_has_its_whole_time_before_it():
    found = cluster(spec("a"))
    found.begins("a")
    found.advance(100.0)
    found.end("a")
    found.verb("retry", "a")
    found.advance(40.0)
    assert view_of(found).head().eta_s == pytest.approx(100.0)


def test_everything_about_a_task_has_its_job_its_nodes_and_its_script():
    found = cluster(spec("a"))
    found.begins("a", nodes=("node1",))
    running = details(found, "a").running
    assert running is not None
    assert (running.job, running.nodes, running.script) == ("100", ("node1",), "/logs/a/attempt-1.sh")
    found.end("a")
    (attempt,) = details(found, "a").attempts
    assert (attempt.job, attempt.nodes, attempt.script) == ("100", ("node1",), "/logs/a/attempt-1.sh")


def test_everything_about_a_pending_task_tells_why_it_waits():
    found = cluster(spec("a"))
    found.waits("a", "Priority", TODAY_14_05)
    told = details(found, "a")
    assert told.waits_for == ("Slurm: begins ~14:05, Priority",)
    assert told.running is not None
    assert (told.running.pending, told.running.pending_why) == (True, "begins ~14:05, Priority")


def test_selectors_find_what_is_pending_and_what_runs():
    found = cluster(spec("a"), spec("b"), jobs=2)
    found.begins("a")
    assert [task.name for task in select(found.deck, ["state:pending"], {})] == ["b"]
    assert [task.name for task in select(found.deck, ["state:running"], {})] == ["a"]


def test_why_the_deck_waits_is_told_without_what_the_rows_of_pending_jobs_tell():
    found = cluster(*[spec(name) for name in "abc"], jobs=2)
    found.waits("a", "Priority")
    head = view_of(found).head()
    assert "1 submitted: Slurm: Priority" in head.waiting_why
    assert head.waits == ("1 queued: 2 of 2 jobs are submitted; max_submitted = 2",)


def test_a_closed_round_is_told_once_among_what_the_deck_waits_for():
    found = cluster(spec("a", round=1), spec("b", round=2))
    head = view_of(found).head()
    (closed,) = head.rounds
    assert head.waits == (f"1 waiting: {closed}",)


def test_of_many_closed_rounds_the_first_five_are_told():
    groups = [f"g{number}" for number in range(8)]
    rounds = [spec(f"{group}-{place}", round=place, group=group) for place in (1, 2) for group in groups]
    assert len(view_of(cluster(*rounds)).head().rounds) == 5


def test_variables_of_the_file_are_shown_and_those_that_every_attempt_gets_are_not():
    own = (("GPUDECK_DIST_STRATEGY", "ddp"), ("GPUDECK_SIM_MIB", "512"))
    work = Work("true", (*own, ("GPUDECK_SHARD", "1"), ("GPUDECK_RUN", "boot-1")))
    assert details(cluster(replace(spec("a"), work=work)), "a").env == dict(own)


def test_the_timeline_knows_no_attempt_that_has_not_begun_and_the_nodes_of_one_that_has():
    found = cluster(spec("a"), spec("b"), jobs=2)
    found.begins("a")
    told = [row for name in "ab" for row in attempts_of(found.deck, found.task(name), TimelineArgs(), {})]
    assert [(row.task, row.nodes) for row in told] == [("a", ("node1",))]


def test_partitions_are_told_with_what_is_free_and_types_where_gpus_have_them():
    gpus = (Gpus("a100", 1, 8), Gpus("v100", 2, 4))
    gpu = Partition("gpu", True, "up", 3, 4, 1, gpus, 40, 256)
    rows = ClusterRows(cluster(spec("a")).deck)
    found = rows.of(ClusterView((gpu,), (), 1000.0, "squeue: no answer"))
    assert (found.at, found.problem) == (1000.0, "squeue: no answer")
    assert found.partitions == (
        ClusterRow(
            partition="gpu", default=True, state="up", nodes_idle=1, nodes_up=3, nodes_total=4, gpus_free=3,
            gpus_total=12, gpu_types=("a100 1/8", "v100 2/4"), cpus_free=40, cpus_total=256, pending=1,
        ),
    )  # fmt: skip


def test_a_deck_on_this_box_tells_of_no_cluster():
    assert view_of(cluster(spec("a"))).cluster() is None


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((), ""),
        (("node1",), "node1"),
        (("node1", "node2", "node3", "node7"), "node[1-3,7]"),
        (("gpu09", "gpu10", "gpu08"), "gpu[08-10]"),
        (("a1", "b1", "login"), "a1,b1,login"),
        (("node[1-4]",), "node[1-4]"),
        (("n9", "n10"), "n9,n10"),
    ],
)
def test_nodes_are_written_as_slurm_does(nodes: tuple[str, ...], text: str):
    assert nodes_text(nodes) == text


# -- the cluster ------------------------------------------------------------------------------------------------------


def partition(name: str, *, default: bool = False) -> Partition:
    return Partition(name, default, "up", 1, 1, 1, (), 8, 8)


PARTITIONS = (partition("main", default=True), partition("high"))


def jobs_of(told: wire.Cluster) -> list[tuple[int, int]]:
    """Running and pending: all of them, then by partition."""
    return [(told.running, told.pending), *((each.running, each.pending) for each in told.partitions)]


def test_jobs_of_the_deck_are_counted_as_the_deck_knows_them_before_slurm_is_asked_again():
    found = cluster(spec("a"), spec("b"), jobs=2)
    rows, view = ClusterRows(found.deck), ClusterView(PARTITIONS, (UserJob("100", True, ("main",)),), 1.0)
    assert jobs_of(rows.of(view)) == [(0, 2), (0, 2), (0, 0)]
    found.begins("a")
    assert jobs_of(rows.of(view)) == [(1, 1), (1, 1), (0, 0)]
    found.end("a")
    assert jobs_of(rows.of(view)) == [(0, 1), (0, 1), (0, 0)]


def test_a_job_is_counted_in_the_partition_that_slurm_has_it_in_and_until_then_where_it_wants_to_be():
    wants_high = replace(spec("a"), extras=Extras(slurm=(("partition", "high"),)))
    found = cluster(wants_high)
    rows = ClusterRows(found.deck)
    assert jobs_of(rows.of(ClusterView(PARTITIONS))) == [(0, 1), (0, 0), (0, 1)]
    moved = ClusterView(PARTITIONS, (UserJob("100", True, ("main",)),))
    assert jobs_of(rows.of(moved)) == [(0, 1), (0, 1), (0, 0)]


def test_the_users_other_jobs_are_counted_as_slurm_told_of_them():
    found = cluster(spec("a"))
    found.begins("a")
    found.end("a")
    others = (UserJob("7", False, ("high",)), UserJob("8_1", True, ("main", "high")), UserJob("100", False, ("main",)))
    assert jobs_of(ClusterRows(found.deck).of(ClusterView(PARTITIONS, others))) == [(1, 1), (0, 1), (1, 1)]
