"""Around a training step: gradient accumulation and mixed precision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import IterableDataset

from .context import current

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    update: bool
    """Whether the optimizer steps after this batch: the last one of its group."""
    share: float
    """What to multiply the loss by: one over the number of batches in this group."""


def accumulate(batches: Iterable[T], *models: nn.Module, every: int) -> Iterator[tuple[T, Step]]:
    """The *batches* in groups of *every*, whose gradients add up before the optimizer steps.

        for batch, step in accumulate(batches, model, every=4):
            (loss_of(model, batch) * step.share).backward()
            if step.update:
                optimizer.step()
                optimizer.zero_grad()

    The wrapped *models* average gradients between processes only in the last batch of a group. A last group that is
    smaller counts by its own size, so nothing is left over for the next epoch. Raises ValueError for *every* below 1.
    """
    if every < 1:
        raise ValueError(f"every={every}: a group has at least one batch")
    replicas = [model for model in models if isinstance(model, DistributedDataParallel)]
    iterable = isinstance(getattr(batches, "dataset", None), IterableDataset)  # whose length is only a guess
    if isinstance(batches, Sized) and not iterable:
        return _quiet_until_update(_counted(batches, len(batches), every), replicas)
    return _quiet_until_update(_grouped(iter(batches), every), replicas)


def _counted(batches: Iterable[T], total: int, every: int) -> Iterator[tuple[T, Step]]:
    """With a known end no batch has to be taken before it is needed."""
    for number, batch in enumerate(batches):
        place = number % every
        size = min(every, total - (number - place))
        yield batch, Step(place == size - 1, 1 / size)


def _grouped(batches: Iterator[T], every: int) -> Iterator[tuple[T, Step]]:
    while group := list(islice(batches, every)):
        for place, batch in enumerate(group):
            yield batch, Step(place == len(group) - 1, 1 / len(group))


def _quiet_until_update(
    steps: Iterator[tuple[T, Step]], replicas: list[DistributedDataParallel]
) -> Iterator[tuple[T, Step]]:
    for batch, step in steps:
        with ExitStack() as stack:
            for replica in replicas if not step.update else ():
                stack.enter_context(replica.no_sync())
            yield batch, step


def autocast() -> torch.autocast:
    """The context of a forward in mixed precision, as `init()` was told: bf16, fp16, or none."""
    context = current()
    dtype = torch.float16 if context.mixed_precision == "fp16" else torch.bfloat16
    return torch.autocast(context.device.type, dtype, enabled=context.mixed_precision != "off")


def scaler() -> torch.amp.GradScaler:
    """A GradScaler, enabled for fp16 alone: bf16 has the range of float32, and needs none."""
    context = current()
    return torch.amp.GradScaler(context.device.type, enabled=context.mixed_precision == "fp16")
