"""One training with all that the library does, each step written down for the tests: python training.py FOLDER."""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import gpudeck.distributed as gd

folder = Path(sys.argv[1])
seen: dict[str, Any] = {}


def fresh_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def gradient(model: nn.Module) -> list[float]:
    return [value for each in model.parameters() for value in each.grad.flatten().tolist()]  # type: ignore[union-attr]


def items_of(loader: Any) -> list[int]:
    return [int(value) for (batch,) in loader for value in batch[:, 0]]


context = gd.init(timeout_s=60)
rank, world = context.rank, context.world_size
seen["context"] = [rank, world, context.local_rank, context.strategy, context.backend, str(context.device)]
seen["again"] = gd.init() is context

plain = fresh_model()
mine = copy.deepcopy(plain)
model = gd.wrap(plain)
batch = torch.arange(8.0).reshape(4, 2) ** (rank + 1)
model(batch).pow(2).mean().backward()
mine(batch).pow(2).mean().backward()
seen["gradient"], seen["own gradient"] = gradient(model), gradient(mine)
both = gd.wrap(nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False))
seen["wrapped"] = [isinstance(each, nn.parallel.DistributedDataParallel) for each in both]

data = TensorDataset(torch.arange(20.0).reshape(10, 2) / 2 // 1)
train = gd.loader(data, 2, workers=0, seed=5)
if rank == 0:
    next(iter(train))
seen["epochs"] = [items_of(train) for _ in range(3)]
seen["batches"] = [len(batch) for (batch,) in train]
seen["dropped"] = items_of(gd.loader(TensorDataset(torch.arange(9.0).reshape(9, 1)), 2, drop_last=True, workers=0))
exact = TensorDataset(torch.arange(11.0).reshape(11, 1))
seen["exact"] = items_of(gd.loader(exact, 2, train=False, workers=1))

buffers_before = [buffer.tolist() for buffer in model.buffers()]
for (batch,) in train:
    model(torch.cat((batch, batch + 1)) ** (rank + 1)).mean().backward()
seen["buffers"] = [buffer.tolist() for buffer in model.buffers()]
seen["buffers moved"] = seen["buffers"] != buffers_before
model.eval()
with torch.no_grad():
    for _ in range(rank):
        model(torch.zeros(1, 2))
gd.barrier()
model.train()

metrics = {"loss": float(rank), "acc": torch.tensor(1.0)}
seen["mean"] = gd.sync(metrics if rank == 0 else dict(reversed(metrics.items())), weight=1 + 2 * rank)
seen["empty share"] = gd.sync({"loss": 3.0 if rank == 0 else float("nan")}, weight=4 if rank == 0 else 0)
seen["alias"] = gd.sync_metrics({"loss": 1})
try:
    gd.sync({"loss": 1.0} if rank == 0 else {"loss": 1.0, "extra": 2.0})
    seen["other names"] = "accepted"
except gd.DistributedError as error:
    seen["other names"] = str(error)

model.zero_grad()
seen["steps"] = []
for (batch,), step in gd.accumulate(train, model, every=2):
    (model(torch.cat((batch, batch + 1)) ** (rank + 1)).pow(2).mean() * step.share).backward()
    seen["steps"].append([step.update, step.share, gradient(model)])
    if step.update:
        model.zero_grad()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    gd.unwrap(model)(torch.ones(2, 2))
    copy.deepcopy(gd.unwrap(model))(torch.ones(2, 2))
    with torch.no_grad():
        gd.unwrap(model)(torch.ones(2, 2))
    model(torch.ones(2, 2))
seen["warned"] = [[each.category.__name__, Path(each.filename).name] for each in caught]

optimizer = torch.optim.Adam(model.parameters())
for number in (8, 9, 10):
    gd.save({"model": model, "optimizer": optimizer, "epoch": number}, folder / f"epoch-{number}.pt", keep=2)
gd.save({"model": model.state_dict()}, folder / "states.pt")
gd.barrier()
newest = gd.latest(folder / "epoch-0.pt")
seen["latest"] = Path(newest or "").name
state = gd.load(newest or "", model=model, optimizer=optimizer)
seen["saved names"] = [sorted(state["model"]), sorted(gd.load(folder / "states.pt")["model"])]
seen["saved epoch"] = state["epoch"]
gd.wrap(fresh_model()).load_state_dict(model.state_dict())

seen["scaled"] = [gd.scale_lr(1e-4), gd.scale_lr(1e-4, "sqrt"), gd.scale_lr(1e-4, "none")]
seen["batch"] = gd.effective_batch_size(8)

seen["stop"] = []
for number in range(6):
    if number == 3 and rank == world - 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    seen["stop"].append(gd.should_stop(every=2))

with gd.autocast():
    seen["autocast"] = str(torch.ones(1, 1).matmul(torch.ones(1, 1)).dtype)
seen["scaler"] = gd.scaler().is_enabled()
gd.print0("said once")
gd.report(3, 100, loss=torch.tensor(0.125))
gd.finish()
seen["left"] = not (torch.distributed.is_available() and torch.distributed.is_initialized())
(folder / f"rank{rank}.json").write_text(json.dumps(seen))
