"""Processes that were started without torchrun find each other, or learn at once why they cannot."""

from __future__ import annotations

import socket

import pytest

from tests.distributed.ranks import free_port, rank_environments, started_by_hand

pytestmark = pytest.mark.torchrun

SOON_S, LATE_S = "2", "60"


def test_processes_of_a_slurm_step_need_nothing_else() -> None:
    step = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "node01",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "MASTER_PORT": str(free_port()),
    }
    ended = started_by_hand(
        "meets.py", [{**step, "SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in ("0", "1")], "60"
    )
    assert [each.code for each in ended] == [0, 0], ended
    assert [each.out for each in ended] == [f"{rank} 2 {rank} slurm {{'ranks': 0.5}}\n" for rank in (0, 1)]


@pytest.mark.parametrize(
    ("ranks", "world_size", "words"),
    [
        ((0, 0, 0), 3, "two processes say that they are rank 0 of 3"),
        ((0, 1, 1), 3, "two processes say that they are rank 1 of 3"),
    ],
    ids=["all say rank 0", "two say rank 1"],
)
def test_ranks_that_do_not_fit_are_an_error_in_every_process(
    ranks: tuple[int, ...], world_size: int, words: str
) -> None:
    ended = started_by_hand("meets.py", rank_environments(ranks, world_size), LATE_S)
    assert [each.code for each in ended] == [1] * len(ranks)
    assert [words in each.err.splitlines()[-1] for each in ended] == [True] * len(ranks), ended


def test_ranks_that_do_not_come_are_named() -> None:
    (ended,) = started_by_hand("meets.py", rank_environments((0,), 3), SOON_S)
    assert ended.code == 1
    assert "of 3 processes ranks 1, 2 did not come" in ended.err.splitlines()[-1]


def test_worlds_of_different_sizes_are_an_error_in_every_process() -> None:
    first, second = rank_environments((0, 1), 2)
    ended = started_by_hand("meets.py", [first, {**second, "WORLD_SIZE": "3"}], LATE_S)
    assert ["WORLD_SIZE differs" in each.err.splitlines()[-1] for each in ended] == [True, True]


def test_a_port_of_another_program_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        (first, *_) = rank_environments((0,), 2)
        (ended,) = started_by_hand("meets.py", [{**first, "MASTER_PORT": port}], SOON_S)
    assert ended.code == 1
    assert f"port {port} is taken by another program" in ended.err.splitlines()[-1]


def test_a_rank_0_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() -> None:
    (alone,) = rank_environments((1,), 2)
    (ended,) = started_by_hand("meets.py", [alone], SOON_S)
    assert f"could not reach 127.0.0.1:{alone['MASTER_PORT']}" in ended.err.splitlines()[-1]
