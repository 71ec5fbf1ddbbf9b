"""Train a probe on dumped activations; the same script for one process and for several (gpudeck.distributed).

It goes on from the newest checkpoint in --out, and writes one when it is asked to stop.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from activations import probe, read_parts
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

import gpudeck.distributed as gd

CHECKPOINT_EVERY = 5  # epochs


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, batches: DataLoader[Any]) -> float:
    """One pass over the data; returns the mean loss over the items of all processes."""
    device = gd.init().device
    model.train()
    total, items = torch.zeros((), device=device), 0
    for x, y in batches:
        loss = functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(y)
        items += len(y)
    return gd.sync({"loss": total / items}, weight=items)["loss"]


@torch.no_grad()
def accuracy(model: nn.Module, batches: DataLoader[Any]) -> float:
    """Of all processes together, each item counted once."""
    device = gd.init().device
    model.eval()
    right = items = 0
    for x, y in batches:
        right += int((model(x.to(device)).argmax(1) == y.to(device)).sum())
        items += len(y)
    return gd.sync({"accuracy": right / max(1, items)}, weight=items)["accuracy"]


def resume(path: Path, config: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The number of epochs that are done already, with the same *config*."""
    newest = gd.latest(path)
    if newest is None or gd.load(newest)["config"] != config:
        return 0
    done = gd.load(newest, model=model, optimizer=optimizer)["epoch"]
    for group in optimizer.param_groups:
        group["lr"] = gd.scale_lr(config["lr"])  # today's number of processes may be another
    gd.print0(f"going on after epoch {done}")
    return done


def train(args: argparse.Namespace, world_size: int) -> None:
    config = {"batch": args.batch, "lr": args.lr}
    torch.manual_seed(0)
    model = gd.wrap(probe())
    optimizer = torch.optim.SGD(model.parameters(), gd.scale_lr(args.lr), momentum=0.9)
    gd.print0(f"{world_size} processes, steps of {gd.effective_batch_size(args.batch)}, lr {gd.scale_lr(args.lr):g}")
    train_data, test_data = read_parts(args.activations)
    batches = gd.loader(train_data, args.batch, workers=0)
    tests = gd.loader(test_data, 256, train=False, workers=0)
    batches.epoch = done = resume(args.out / "epoch-0.pt", config, model, optimizer)
    for epoch in range(done + 1, args.epochs + 1):
        loss = train_epoch(model, optimizer, batches)
        gd.report(epoch, args.epochs, loss=loss, accuracy=accuracy(model, tests))
        stop = gd.should_stop() and epoch < args.epochs
        if stop or epoch % CHECKPOINT_EVERY == 0 or epoch == args.epochs:
            state = {"model": model, "optimizer": optimizer, "epoch": epoch, "config": config}
            gd.save(state, args.out / f"epoch-{epoch}.pt", keep=2)
        if stop:
            raise SystemExit(f"stopped after epoch {epoch}: the next start goes on there")
    gd.save({"model": model}, args.out / "model.pt")
    score = accuracy(model, tests)
    if gd.is_main():
        metrics = {"processes": world_size, "accuracy": score, "items": len(test_data)}
        (args.out / "metrics.json").write_text(json.dumps(metrics) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a probe on activations.")
    parser.add_argument("--activations", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints, model.pt and metrics.json")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="of each process")
    parser.add_argument("--lr", type=float, required=True, help="for one process")
    args = parser.parse_args()
    with gd.init() as context:
        train(args, context.world_size)


if __name__ == "__main__":
    main()
