"""What gpudeck.distributed costs a training: a step with its wrapper, loader and accumulation, against DDP by hand.

Both train the same model on the same data in the same two processes (gloo, CPU), turn by turn; a round's step time is
the median of its steps, on rank 0. By hand: DistributedDataParallel, DistributedSampler and no_sync, as in tutorials.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Report, folder_on, options, tmpfs

PROCESSES = 2
WIDTH, ITEMS, BATCH, EVERY = 512, 8_192, 32, 2

Round = Callable[[], float]
"""Trains an epoch; the median seconds of a step."""


def timed(batches: Any, step: Callable[[Any], None]) -> float:
    """By groups of EVERY steps: those that average gradients take longer than the rest."""
    seconds: list[float] = []
    before = time.perf_counter()
    for number, batch in enumerate(batches):
        step(batch)
        if number % EVERY == EVERY - 1:
            now = time.perf_counter()
            seconds.append((now - before) / EVERY)
            before = now
    return statistics.median(seconds)


def ours(model: Any, data: Any) -> Round:
    import torch

    import gpudeck.distributed as gd

    model = gd.wrap(model)
    loader = gd.loader(data, BATCH, workers=0, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(item: Any) -> None:
        (batch,), now = item
        (model(batch).pow(2).mean() * now.share).backward()
        if now.update:
            optimizer.step()
            optimizer.zero_grad()

    return lambda: timed(gd.accumulate(loader, model, every=EVERY), step)


def by_hand(model: Any, data: Any) -> Round:
    import contextlib

    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    model = DistributedDataParallel(model)
    sampler: Any = DistributedSampler(data, drop_last=True)
    loader: Any = DataLoader(data, BATCH, sampler=sampler, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    epoch = 0

    def step(item: Any) -> None:
        number, (batch,) = item
        update = number % EVERY == EVERY - 1
        with contextlib.nullcontext() if update else model.no_sync():
            (model(batch).pow(2).mean() / EVERY).backward()
        if update:
            optimizer.step()
            optimizer.zero_grad()

    def one_round() -> float:
        nonlocal epoch
        sampler.set_epoch(epoch)
        epoch += 1
        return timed(enumerate(loader), step)

    return one_round


def rank(out: str, rounds: int) -> None:
    """What each of the processes runs."""
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    import gpudeck.distributed as gd

    def model() -> nn.Module:
        torch.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))

    with gd.init():
        data = TensorDataset(torch.randn(ITEMS, WIDTH))
        sides = {"ours": ours(model(), data), "peer": by_hand(model(), data)}
        found: dict[str, list[float]] = {name: [] for name in sides}
        for side in sides.values():
            side()  # the first epoch pays for what is made once
        for number in range(rounds):
            turns = list(sides.items())
            for name, side in turns if number % 2 == 0 else reversed(turns):
                found[name].append(side() * 1e3)
        if gd.is_main():
            Path(out).write_text(json.dumps(found))


def both(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of a step in each round."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(PROCESSES)}
    shared |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    with folder_on(tmpfs() or "/tmp") as folder:
        command = (sys.executable, __file__, "--rank", f"{folder}/found", str(rounds))
        running = [
            subprocess.Popen(
                command, env={**shared, "RANK": str(each), "LOCAL_RANK": str(each)}, stderr=subprocess.PIPE
            )
            for each in range(PROCESSES)
        ]
        said = [process.communicate()[1] for process in running]
        if any(process.returncode for process in running):
            raise RuntimeError(b"\n".join(said).decode())
        return json.loads(Path(folder, "found").read_text())


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    found = both(given.rounds(20))
    report.row("a step of two processes, DDP by hand", found["ours"], found["peer"], "ms", "<= 1.02 x")
    return report.exit_code()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
