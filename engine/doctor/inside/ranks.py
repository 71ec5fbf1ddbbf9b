"""One rank of a tiny distributed training under torchrun. Arguments: backend, folder for what the ranks found."""

from __future__ import annotations

import copy
import gc
import importlib
import json
import os
import sys
from datetime import timedelta
from typing import Any, Callable, Dict  # noqa: UP035

ITEMS_PER_RANK = 20


def basic(torch: Any, dist: Any, device: Any) -> str:
    """Initialised; a sum over all ranks; a barrier."""
    size = dist.get_world_size()
    number = torch.tensor([dist.get_rank() + 1], device=device)
    dist.all_reduce(number)
    dist.barrier()
    expected = size * (size + 1) // 2
    return "" if int(number) == expected else f"all_reduce gave {int(number)}, not {expected}"


def model(torch: Any, dist: Any, device: Any) -> str:
    """Each rank has data of its own; after the backward pass all have the mean of their gradients."""
    torch.manual_seed(0)
    plain = torch.nn.Linear(8, 4).to(device)
    parallel: Any = importlib.import_module("torch.nn.parallel")
    ids = [device.index] if device.type == "cuda" else None
    wrapped = parallel.DistributedDataParallel(copy.deepcopy(plain), device_ids=ids)
    torch.manual_seed(1 + dist.get_rank())
    batch = torch.randn(16, 8, device=device)
    plain(batch).square().mean().backward()
    wrapped(batch).square().mean().backward()
    for mine, shared in zip(plain.parameters(), wrapped.module.parameters()):  # noqa: B905
        mean = mine.grad.clone()
        dist.all_reduce(mean)
        if not torch.allclose(mean / dist.get_world_size(), shared.grad, rtol=1e-4, atol=1e-5):
            return "DDP's gradients are not the mean of those of the ranks"
        every = [torch.empty_like(shared.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(every, shared.grad.contiguous())
        if not all(torch.equal(each, every[0]) for each in every):
            return "the ranks have different gradients"
    return ""


def data(torch: Any, dist: Any, device: Any) -> str:
    """The sampler gives each item to one rank."""
    sampling: Any = importlib.import_module("torch.utils.data.distributed")
    count = ITEMS_PER_RANK * dist.get_world_size()
    sampler = sampling.DistributedSampler(range(count), shuffle=True)
    sampler.set_epoch(1)
    mine = torch.tensor(list(sampler), device=device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    items = [int(item) for each in every for item in each]
    if len(items) != len(set(items)):
        return "two ranks got the same item"
    return "" if set(items) == set(range(count)) else "no rank got some item"


TESTS: Dict[str, Callable[[Any, Any, Any], str]] = {"basic": basic, "model": model, "data": data}  # noqa: UP006


def main() -> None:
    backend, folder = sys.argv[1:]
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")
    device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    with open(os.path.join(folder, f"rank-{rank}"), "w") as file:
        dist.init_process_group(backend, timeout=timedelta(seconds=60))
        for name, test in TESTS.items():
            print(json.dumps({"rank": rank, "test": name, "wrong": test(torch, dist, device)}), file=file, flush=True)
        dist.barrier()
    gc.collect()  # else gloo sometimes aborts at exit
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
