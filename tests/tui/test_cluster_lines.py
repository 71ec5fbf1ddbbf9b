"""A cluster as lines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.protocol.wire import Cluster, ClusterRow
from tests.inside.tui import OLD_S, height_of, length
from tests.inside.tui import cluster_lines_of as lines_of

NOW_S = 1_800_000_000.0
GPU: dict[str, Any] = {
    "partition": "gpu", "default": True, "state": "up", "nodes_up": 3, "nodes_total": 4, "gpus_free": 5,
    "gpus_total": 16, "cpus_free": 40, "cpus_total": 256, "running": 2, "pending": 1,
}  # fmt: skip


def cluster(*rows: ClusterRow, **more: Any) -> Cluster:
    values: dict[str, Any] = {"running": 2, "pending": 12, "at": NOW_S - 3, **more}
    return Cluster(partitions=rows or (ClusterRow(**GPU),), **values)


def texts(found: Cluster | None, width: int = 80, **how: Any) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines_of(found, width, NOW_S, **how)]


def test_titles_and_my_jobs_stand_over_the_partitions() -> None:
    assert texts(cluster()) == [
        "Slurm  GPUs free  CPUs free  nodes  mine 2 running, 12 pending",
        "gpu*        5/16     40/256    3/4  2 running, 1 pending",
    ]


def test_a_partition_that_is_not_up_says_so() -> None:
    assert "  drain  " in texts(cluster(ClusterRow(**{**GPU, "state": "drain"})))[1]


def test_a_column_in_which_no_partition_has_anything_is_left_out() -> None:
    cpus = ClusterRow(**{**GPU, "gpus_free": 0, "gpus_total": 0})
    assert "GPUs free" not in texts(cluster(cpus))[0]


def test_types_of_gpus_are_told_where_there_is_room() -> None:
    found = cluster(ClusterRow(**GPU, gpu_types=("a100 3/8", "v100 2/8")))
    assert ["a100 3/8  v100 2/8" in texts(found, width)[1] for width in (80, 160)] == [False, True]


def test_a_slurm_that_does_not_answer_is_named_with_the_time_of_what_is_shown() -> None:
    head, *rest = texts(cluster(problem="squeue: no answer"))
    assert head.startswith("Slurm does not answer: squeue: no answer  as of ")
    assert rest == texts(cluster())


@pytest.mark.parametrize(("age_s", "width", "title"), [
    (OLD_S, 80, "Slurm "), (OLD_S + 1, 80, "16s ago "), (90, 80, "1m30s ago "), (16, 160, "Slurm 16s ago "),
])  # fmt: skip
def test_what_was_told_long_ago_is_marked_with_its_age(age_s: float, width: int, title: str) -> None:
    assert texts(cluster(at=NOW_S - age_s), width)[0].startswith(title)


def test_an_engine_that_has_gone_leaves_its_last_words_with_their_time() -> None:
    lines = lines_of(cluster(), 80, NOW_S, told=False)
    assert "".join(text for text, _ in lines[0]).startswith("as of ")
    assert {style for line in lines[1:] for _, style in line} == {"dim"}


def test_before_the_first_answer_it_is_being_asked() -> None:
    assert texts(Cluster()) == ["Slurm  is being asked"]


@pytest.mark.parametrize("found", [None, Cluster(), cluster(), cluster(problem="x")])
def test_the_pane_is_as_high_as_its_lines(found: Cluster | None) -> None:
    assert height_of(found) == len(texts(found))


any_rows = st.builds(
    ClusterRow,
    partition=st.text(max_size=30),
    default=st.booleans(),
    state=st.sampled_from(["up", "down", "inact", ""]),
    nodes_up=st.none() | st.integers(0, 9999),
    nodes_total=st.none() | st.integers(0, 9999),
    gpus_free=st.none() | st.integers(0, 100),
    gpus_total=st.none() | st.integers(100, 9999),
    cpus_free=st.none() | st.integers(0, 100),
    cpus_total=st.none() | st.integers(100, 10**6),
    gpu_types=st.lists(st.text(max_size=12), max_size=3).map(tuple),
    running=st.integers(0, 10**5),
    pending=st.integers(0, 10**5),
)


@given(st.lists(any_rows, max_size=4), st.integers(1, 160), st.text(max_size=40))
def test_any_cluster_fits_its_width(rows: list[ClusterRow], width: int, problem: str) -> None:
    found = msgspec.structs.replace(cluster(*rows), problem=problem)
    assert max(map(length, lines_of(found, width, NOW_S))) <= width
