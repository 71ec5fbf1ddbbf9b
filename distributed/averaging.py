"""Numbers over all processes: `sync()`, the mean over items and not over processes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import SupportsFloat

import torch
import torch.distributed as dist

from .errors import DistributedError
from .session import current

_WIDTH = 32


def sync(metrics: Mapping[str, SupportsFloat], weight: SupportsFloat = 1) -> dict[str, float]:
    """The mean of each metric over all processes, each counting by its *weight*: the number of items it is a mean of.

    Numbers or tensors of one element; the result is the same in all processes: sum(value x weight) / sum(weight), of
    one all-reduce. A process without items gives weight 0, and its values do not count; without any weight the result
    is nan. All processes have to call it with the same names: DistributedError otherwise. Alone: the values as floats.
    """
    context = current()
    share = float(weight)
    if share < 0:
        raise ValueError(f"weight={share}: it counts items")
    values = {name: float(value) for name, value in metrics.items()}
    if context.world_size == 1:
        return {name: value if share else float("nan") for name, value in values.items()}
    names = sorted(values)
    sums = _summed([share, *_marks(names), *(values[name] * share if share else 0.0 for name in names)])
    if sums[1:3] != [mark * context.world_size for mark in _marks(names)]:
        raise DistributedError(f"the processes call sync() with different metrics; here: {', '.join(names) or 'none'}")
    return {name: sums[3 + names.index(name)] / sums[0] if sums[0] else float("nan") for name in values}


def _marks(names: list[str]) -> tuple[float, float]:
    """Whose sums over processes tell whether all had the same names: whole numbers, exact in a float of 64 bits."""
    mark = zlib.crc32("\0".join(names).encode()) % 65_521
    return float(mark), float(mark * mark)


def _summed(row: list[float]) -> list[float]:
    """Padded, so that processes with a metric more or less still send equally much, and can be told."""
    context = current()
    row += [0.0] * (-len(row) % _WIDTH)
    device = context.device if "nccl" in context.backend else torch.device("cpu")
    sent = torch.tensor(row, dtype=torch.float64, device=device)
    dist.all_reduce(sent)
    return sent.tolist()
