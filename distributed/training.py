"""Around a training step: gradient accumulation, mixed precision, and numbers that follow from the hardware."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import IterableDataset

from .session import current
from .task import load_task

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


Rule = Literal["linear", "sqrt", "none"]
_MIB_OF_GB = 1e9 / 2**20
_LARGE_GB, _MEDIUM_GB = 80, 40


def scale_lr(base: float, rule: Rule = "linear") -> float:
    """The learning rate for the whole batch, from one that suits a single GPU's batch.

    "linear": times the number of GPUs (Goyal et al. 2017, arXiv:1706.02677; with a warm-up, for SGD); "sqrt": times its
    root (as suits Adam); "none": as it is. Raises ValueError for another rule.
    """
    replicas = current().replicas
    if rule == "linear":
        return base * replicas
    if rule == "sqrt":
        return base * math.sqrt(replicas)
    if rule == "none":
        return base
    raise ValueError(f"rule={rule!r}: linear, sqrt or none")


def effective_batch_size(per_gpu: int, accumulated: int = 1) -> int:
    """Items behind one step of the optimizer: a GPU's batch, times the GPUs, times the batches *accumulated*."""
    return per_gpu * current().replicas * accumulated


def suggest_batch_size(base: int) -> int:
    """*base* is for a GPU of 40 GB: twice of it from 80 GB on, half of it (at least 1) below 40 GB.

    The memory is that of the smallest GPU of the task (GPUDECK_GPU_MEM_MIB), else of this process's GPU; without any
    it is *base*.
    """
    memory_mib = load_task().gpu_mem_mib or _memory_mib()
    if memory_mib is None:
        return base
    memory_gb = memory_mib / _MIB_OF_GB
    if memory_gb >= _LARGE_GB:
        return base * 2
    return base if memory_gb >= _MEDIUM_GB else max(1, base // 2)


def _memory_mib() -> int | None:
    if not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory // 2**20


def perf_defaults() -> None:
    """TF32 for matrix products, and cuDNN's fastest algorithms, found by trying: right for inputs of a fixed size.

    Both trade reproducibility to the last bit for speed. Without CUDA nothing changes.
    """
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True


class CacheClearer:
    """Called once a step, gives torch's unused GPU memory back at every *every*-th call.

    For inputs of varying size, where the cache breaks into pieces; it costs time, so not at every step. True: it did.
    """

    def __init__(self, every: int = 10) -> None:
        if every < 1:
            raise ValueError(f"every={every}: at least 1")
        self._every = every
        self._calls = 0

    def __call__(self) -> bool:
        self._calls += 1
        if self._calls % self._every:
            return False
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return True
