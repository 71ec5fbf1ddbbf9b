"""The same training script as two processes, started by torchrun, and as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.ranks import Ended, launched, torchrun, written

pytestmark = pytest.mark.torchrun

Seen = list[dict[str, Any]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Seen, Path]:
    folder = tmp_path_factory.mktemp("two")
    return torchrun(2, "training.py", str(folder)), written(folder), folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Seen, Path]:
    folder = tmp_path_factory.mktemp("one")
    return launched((), "training.py", str(folder)), written(folder), folder


@pytest.fixture(scope="module")
def two(trained: tuple[Ended, Seen, Path]) -> Seen:
    assert trained[0].code == 0, trained[0].err
    return trained[1]


@pytest.fixture(scope="module")
def one(alone: tuple[Ended, Seen, Path]) -> dict[str, Any]:
    assert alone[0].code == 0, alone[0].err
    return alone[1][0]


def test_each_process_knows_its_place(two: Seen, one: dict[str, Any]) -> None:
    assert [seen["context"] for seen in two] == [[rank, 2, rank, "ddp", "gloo", "cpu"] for rank in (0, 1)]
    assert one["context"] == [0, 1, 0, "single", "", "cpu"]


def test_a_second_init_is_the_first_one(two: Seen) -> None:
    assert [seen["again"] for seen in two] == [True, True]


def test_gradients_are_the_mean_of_what_each_process_would_have(two: Seen) -> None:
    first, second = (seen["own gradient"] for seen in two)
    assert first != pytest.approx(second, abs=1e-3)
    mean = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    assert [seen["gradient"] for seen in two] == [pytest.approx(mean, abs=1e-4)] * 2


def test_alone_gradients_are_ones_own(one: dict[str, Any]) -> None:
    assert one["gradient"] == one["own gradient"]
    assert one["wrapped"] == [False, False]


def test_a_model_without_anything_to_train_gets_no_wrapper(two: Seen) -> None:
    assert [seen["wrapped"] for seen in two] == [[True, False]] * 2


def test_every_epoch_shows_each_item_once_in_another_order(two: Seen, one: dict[str, Any]) -> None:
    for first, second in zip(two[0]["epochs"], two[1]["epochs"], strict=True):
        assert sorted(first + second) == list(range(10))
    assert len({str(epoch) for epoch in two[0]["epochs"]}) == 3
    assert [sorted(epoch) for epoch in one["epochs"]] == [list(range(10))] * 3


def test_the_batch_is_one_for_each_process(two: Seen, one: dict[str, Any]) -> None:
    assert (two[0]["batches"], two[1]["batches"], one["batches"]) == ([2, 2, 1], [2, 2, 1], [2] * 5)
    assert (two[0]["batch"], one["batch"]) == (16, 8)


def test_with_drop_last_all_batches_are_full_and_no_item_comes_twice(two: Seen) -> None:
    first, second = (seen["dropped"] for seen in two)
    assert (len(first), len(second), len({*first, *second})) == (4, 4, 8)


def test_an_evaluation_shows_each_item_once_in_order(two: Seen, one: dict[str, Any]) -> None:
    assert [seen["exact"] for seen in two] == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9]]
    assert one["exact"] == list(range(11))


def test_after_an_epoch_all_processes_have_the_running_statistics_of_rank_0(two: Seen) -> None:
    assert two[0]["buffers moved"]
    assert two[0]["buffers"] == two[1]["buffers"]


def test_the_mean_is_over_items_not_over_processes(two: Seen, one: dict[str, Any]) -> None:
    assert [seen["mean"] for seen in two] == [{"loss": 0.75, "acc": 1.0}] * 2  # 0 of 1 item, 1 of 3
    assert one["mean"] == {"loss": 0.0, "acc": 1.0}


def test_a_process_without_items_does_not_count(two: Seen) -> None:
    assert [seen["empty share"] for seen in two] == [{"loss": 3.0}] * 2


def test_different_metrics_are_an_error_in_all_processes(two: Seen) -> None:
    assert ["different metrics" in seen["other names"] for seen in two] == [True, True]


def test_accumulated_gradients_are_averaged_once_a_group_and_nothing_is_left_over(two: Seen) -> None:
    first, second = (seen["steps"] for seen in two)
    assert [(update, share) for update, share, _ in first] == [(False, 0.5), (True, 0.5), (True, 1.0)]
    same = [mine[2] == pytest.approx(other[2], abs=1e-5) for mine, other in zip(first, second, strict=True)]
    assert same == [False, True, True]


def test_going_past_the_wrapper_in_training_is_warned_of_once_by_the_line_that_did_it(two: Seen) -> None:
    assert [seen["warned"] for seen in two] == [[["DistributedWarning", "training.py"]], []]


def test_only_rank_0_saves_and_the_last_ones_stay(trained: tuple[Ended, Seen, Path], two: Seen) -> None:
    assert sorted(each.name for each in trained[2].glob("*.pt")) == ["epoch-10.pt", "epoch-9.pt", "states.pt"]
    assert [(seen["latest"], seen["saved epoch"]) for seen in two] == [("epoch-10.pt", 10)] * 2


def test_a_checkpoint_of_two_processes_is_one_of_a_single_process(two: Seen, one: dict[str, Any]) -> None:
    assert two[0]["saved names"] == two[1]["saved names"] == one["saved names"]
    assert "0.weight" in one["saved names"][0]


def test_the_learning_rate_grows_with_the_world(two: Seen, one: dict[str, Any]) -> None:
    assert two[0]["scaled"] == pytest.approx([2e-4, 1e-4 * 2**0.5, 1e-4])
    assert one["scaled"] == [1e-4] * 3


def test_all_processes_stop_at_the_same_step(two: Seen, one: dict[str, Any]) -> None:
    assert [seen["stop"] for seen in (*two, one)] == [[False] * 3 + [True] * 3] * 3


def test_mixed_precision_is_off_unless_it_was_asked_for(two: Seen) -> None:
    assert (two[0]["autocast"], two[0]["scaler"]) == ("torch.float32", False)


@pytest.mark.parametrize("run", ["trained", "alone"])
def test_what_is_said_is_said_once(run: str, request: pytest.FixtureRequest) -> None:
    ended: Ended = request.getfixturevalue(run)[0]
    assert ended.out.splitlines() == ["said once", "::gpudeck progress=3/100 loss=0.125"]


def test_the_group_is_left_at_the_end(two: Seen) -> None:
    assert [seen["left"] for seen in two] == [True, True]
