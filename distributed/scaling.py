"""Numbers that follow from the hardware: learning rate, batch, memory, and torch's own switches."""

from __future__ import annotations

import gc
import math
from typing import Literal

import torch

from .context import current
from .task import load_task

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
