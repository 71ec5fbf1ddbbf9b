"""What can be seen without other processes: checkpoints, epochs, workers, numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

import gpudeck.distributed as gd
from gpudeck.distributed import session as session_module
from gpudeck.distributed.feeding import usual_workers
from tests.distributed.ranks import clean_environment

pytestmark = pytest.mark.torchrun


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Context]:
    """A training of this process alone, whatever surrounds the tests."""
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") or name.startswith(("SLURM_", "GPUDECK_DIST_", "GPUDECK_GPU")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with gd.init() as context:
        yield context


def numbers(count: int) -> TensorDataset:
    return TensorDataset(torch.arange(count))


def order(loader: Any) -> list[int]:
    return [int(value) for (batch,) in loader for value in batch]


def test_a_resumed_training_goes_on_with_the_epoch_it_is_told() -> None:
    first, resumed = (gd.loader(numbers(20), 4, workers=0) for _ in range(2))
    third = [order(first) for _ in range(3)][2]
    resumed.epoch = 2  # type: ignore[attr-defined]
    assert order(resumed) == third


def test_epochs_that_are_broken_off_count() -> None:
    whole, broken = (gd.loader(numbers(20), 4, workers=0) for _ in range(2))
    order(whole)
    for place, _ in enumerate(broken):
        if place == 2:
            break
    assert order(broken) == order(whole)


def test_a_look_at_the_first_batch_is_no_epoch() -> None:
    looked_at, other = (gd.loader(numbers(20), 4, workers=0) for _ in range(2))
    next(iter(looked_at))
    assert order(looked_at) == order(other)


def test_an_evaluation_is_not_shuffled() -> None:
    with pytest.raises(ValueError, match="once, in order"):
        gd.loader(numbers(4), 2, train=False, shuffle=True)


def test_a_training_without_a_single_batch_is_an_error() -> None:
    with pytest.raises(gd.DistributedError, match="3 items make no batch of 4"):
        gd.loader(numbers(3), 4, drop_last=True, workers=0)
    with pytest.raises(gd.DistributedError, match="no items"):
        gd.loader(numbers(0), 4, workers=0)


def test_an_iterable_data_set_is_passed_through() -> None:
    class Counting(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

    assert [batch.tolist() for batch in gd.loader(Counting(), 2, workers=0)] == [[0, 1], [2, 3], [4]]


def test_workers_are_two_but_no_more_than_cores(alone: gd.Context) -> None:
    cores = len(os.sched_getaffinity(0))
    assert usual_workers(alone) <= min(2, cores)
    assert usual_workers(replace(alone, local_world_size=10_000)) == 0


def test_weight_0_alone_is_no_mean() -> None:
    assert str(gd.sync({"loss": 3.0}, weight=0)) == "{'loss': nan}"


@pytest.mark.parametrize("batches", ["abcde", iter("abcde")], ids=["known length", "unknown length"])
def test_an_accumulated_group_counts_by_its_own_size(batches: Iterable[str]) -> None:
    steps = [(batch, step.update, step.share) for batch, step in gd.accumulate(batches, every=2)]
    assert steps == [
        ("a", False, 0.5), ("b", True, 0.5), ("c", False, 0.5), ("d", True, 0.5), ("e", True, 1.0)
    ]  # fmt: skip


@pytest.mark.parametrize(("memory_mib", "size"), [("81559", 16), ("40960", 8), ("24576", 4), ("", 8)])
def test_the_batch_follows_the_memory(memory_mib: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUDECK_GPU_MEM_MIB", memory_mib)
    assert gd.suggest_batch_size(8) == size
    assert gd.suggest_batch_size(1) >= 1


@pytest.mark.parametrize(("world_size", "rate", "batch"), [(1, 1e-4, 8), (4, 4e-4, 32)])
def test_four_gpus_with_batches_of_eight_are_32_and_four_times_the_rate(
    alone: gd.Context, world_size: int, rate: float, batch: int
) -> None:
    session_module.set_current(replace(alone, world_size=world_size))
    assert (gd.scale_lr(1e-4), gd.effective_batch_size(8)) == (rate, batch)
    assert gd.effective_batch_size(8, accumulated=2) == 2 * batch


def test_the_cache_is_cleared_at_every_tenth_call() -> None:
    clear = gd.CacheClearer()
    assert [clear() for _ in range(20)] == ([False] * 9 + [True]) * 2


def test_perf_defaults_without_cuda_change_nothing() -> None:
    before = torch.get_float32_matmul_precision()
    gd.perf_defaults()
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("precision", "dtype"), [("off", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_mixed_precision_is_what_the_variable_says(
    precision: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    gd.finish()
    monkeypatch.setenv("GPUDECK_DIST_MIXED_PRECISION", precision)
    gd.init()
    with gd.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert gd.scaler().is_enabled() == (precision == "fp16")


def test_a_wrapped_ddp_is_asked_for_in_vain_with_a_warning() -> None:
    gd.finish()
    with pytest.warns(gd.DistributedWarning, match="torchrun"):
        assert gd.init("ddp").strategy == "single"


def test_signals_are_given_back_at_the_end() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    assert not gd.should_stop()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert gd.should_stop()
    gd.finish()
    assert signal.getsignal(signal.SIGUSR1) == before
    assert not gd.should_stop()


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    gd.save({"model": model, "epoch": 7}, tmp_path / "new" / "last.pt")
    assert gd.load(tmp_path / "new" / "last.pt", model=other)["epoch"] == 7
    assert torch.equal(model.weight, other.weight)
    with pytest.raises(gd.DistributedError, match="has no 'optimizer'"):
        gd.load(tmp_path / "new" / "last.pt", optimizer=torch.optim.SGD(other.parameters()))


def test_a_checkpoint_of_a_wrapper_is_read_into_a_plain_model(tmp_path: Path) -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    torch.save({"model": {f"module.{name}": value for name, value in model.state_dict().items()}}, tmp_path / "old.pt")
    gd.load(tmp_path / "old.pt", model=other)
    assert torch.equal(model.weight, other.weight)


def test_the_last_written_stay_whatever_their_numbers(tmp_path: Path) -> None:
    for number in (90, 91, 1, 2):
        gd.save({"n": number}, tmp_path / f"step-{number}-of-a.pt", keep=2)
    (tmp_path / "step-3-of-b.pt").touch()
    assert sorted(each.name for each in tmp_path.glob("*-a.pt")) == ["step-1-of-a.pt", "step-2-of-a.pt"]
    assert gd.latest(tmp_path / "step-0-of-a.pt") == str(tmp_path / "step-2-of-a.pt")
    assert gd.latest(tmp_path / "none" / "step-0.pt") is None
    with pytest.raises(ValueError, match="number in their names"):
        gd.save({}, tmp_path / "last.pt", keep=2)


def test_a_kill_in_the_middle_of_saving_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    script = (
        "import sys, torch, gpudeck.distributed as gd\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    gd.save({'weights': torch.full((500_000,), n)}, sys.argv[1])\n"
    )
    target = tmp_path / "last.pt"
    process = subprocess.Popen((sys.executable, "-c", script, str(target)), env=clean_environment())
    try:
        deadline = time.monotonic() + 60
        while not (target.exists() and (tmp_path / ".last.pt.tmp").exists()):
            assert process.poll() is None
            assert time.monotonic() < deadline
    finally:
        process.kill()
        process.wait()
    weights = gd.load(target)["weights"]
    assert weights.min() == weights.max() >= 1
    assert {each.name for each in tmp_path.iterdir()} <= {"last.pt", ".last.pt.tmp"}


def test_a_script_with_several_processes_and_no_init_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gd.finish()
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert not gd.is_main()
    with pytest.raises(gd.DistributedError, match=r"call init\(\) first"):
        gd.wrap(nn.Linear(1, 1))
