"""Data for each process: `loader()`, its share of every epoch, or of an evaluation to the last item."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sized
from contextlib import suppress
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Sampler

from .errors import DistributedError
from .models import share_buffers
from .session import Context, current, notice, warn

T = TypeVar("T")
_WORKERS = 2
"""The usual two to four for a GPU, from the lower end: more help only where an item costs much."""


class Share(Sampler[int]):
    """Every *count*-th item from *first* on: all shares together are the data set, each item once, in order."""

    def __init__(self, items: int, first: int, count: int) -> None:
        self._indices = range(first, items, count)

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class EpochLoader(DataLoader[T]):
    """A DataLoader for training: each pass is another epoch, in another order, the same one in all processes.

    `epoch` is the one that comes next; set it when training is resumed. Taking only the first batch to look at it is no
    epoch: a process that did would have another order than the rest from then on.
    """

    epoch = 0

    def __iter__(self) -> Iterator[T]:  # pyright: ignore[reportIncompatibleMethodOverride]
        epoch = self.epoch
        for sampler in (self.sampler, self.batch_sampler):
            if hasattr(sampler, "set_epoch"):
                cast("Any", sampler).set_epoch(epoch)
        for number, batch in enumerate(super().__iter__()):
            if number == 1:
                self.epoch = epoch + 1
            yield batch
        self.epoch = epoch + 1
        share_buffers()


def loader(
    dataset: Dataset[T],
    batch_size: int,
    *,
    train: bool = True,
    shuffle: bool | None = None,
    drop_last: bool = False,
    workers: int | None = None,
    seed: int = 0,
    **options: Any,
) -> DataLoader[T]:
    """A DataLoader over this process's share of *dataset*; *batch_size* items a batch **in each process**.

    With *train*, all processes get equally many batches: a few items come twice where the data set cannot be divided,
    or are left out with *drop_last*; the order changes with every pass (*shuffle* = False: never). Without, the shares
    are exact: each item once, in order, so processes may have different numbers of batches; average with
    `sync(metrics, weight=items)`. *workers*: 2, but no more than cores for each process. Memory is pinned on CUDA.
    *options* go to DataLoader; with a `sampler` or `batch_sampler` of your own in them, that decides.

    Raises DistributedError where a process would get no batch to train on, ValueError for a batch without items and
    for an evaluation in random order.
    """
    context = current()
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: a batch has at least one item")
    if shuffle and not train:
        raise ValueError("shuffle=True with train=False: an evaluation takes each item once, in order")
    options.setdefault("num_workers", usual_workers(context) if workers is None else workers)
    options.setdefault("pin_memory", context.device.type == "cuda")
    options.setdefault("generator", torch.Generator().manual_seed(seed * context.world_size + context.rank))
    if "batch_sampler" not in options:
        options |= {"batch_size": batch_size * _divided(context), "drop_last": drop_last and train}
    if isinstance(dataset, IterableDataset):
        _say_undivided(context)
    elif "sampler" not in options and "batch_sampler" not in options:
        options["sampler"] = (
            DistributedSampler(
                _filled(dataset), context.world_size, context.rank, shuffle is not False, seed, drop_last
            )
            if train
            else Share(_length(dataset), context.rank, context.world_size)
        )
    made: DataLoader[T] = EpochLoader(dataset, **options) if train else DataLoader(dataset, **options)
    if train and not isinstance(dataset, IterableDataset):
        _check(made, batch_size, context)
    return made


def usual_workers(context: Context) -> int:
    """Two, but no more than the cores that this process has for itself; 0 where it shares one."""
    return min(_WORKERS, _cores() // max(1, context.local_world_size))


def _length(dataset: Dataset[Any]) -> int:
    return len(cast("Sized", dataset))


def _filled(dataset: Dataset[T]) -> Dataset[T]:
    if _length(dataset) == 0:
        raise DistributedError("there is nothing to train on: the data set has no items")
    return dataset


def _check(made: DataLoader[Any], batch_size: int, context: Context) -> None:
    if len(made) == 0:
        raise DistributedError(
            f"{_length(made.dataset)} items make no batch of {batch_size} in each of {context.world_size} processes: "
            "take a smaller batch, or drop_last=False"
        )
    if context.replicas > 1:
        together = batch_size * context.replicas
        notice(f"batches of {batch_size} in each of {context.replicas} copies, {together} together")


def _divided(context: Context) -> int:
    """DataParallel divides a batch among the GPUs."""
    return context.replicas if context.strategy == "dp" else 1


def _say_undivided(context: Context) -> None:
    if context.world_size > 1:
        warn(
            "an iterable data set is not divided by loader(): each process reads all of it, unless it takes its own "
            "share by rank and world_size"
        )


def _cores() -> int:
    """Those this process may use: affinity, and what a container allows."""
    cores = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
        quota, period = file.read().split()
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores
