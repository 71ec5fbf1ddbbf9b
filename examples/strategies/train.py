"""Train a small network on scikit-learn's wine, as the strategy that the environment asks for, and write what became
of it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import gpudeck.distributed as gd

TEST_ROWS = 58


def wine() -> tuple[TensorDataset, TensorDataset]:
    """13 measurements of 178 wines, scaled, and which of three growers made them: for training, and for tests."""
    x, y = (torch.from_numpy(part) for part in load_wine(return_X_y=True))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    x, y = ((x - x.mean(0)) / x.std(0)).float()[order], y.long()[order]
    return TensorDataset(x[TEST_ROWS:], y[TEST_ROWS:]), TensorDataset(x[:TEST_ROWS], y[:TEST_ROWS])


def fit(model: nn.Module, data: TensorDataset, epochs: int, device: torch.device) -> None:
    optimizer = torch.optim.Adam(model.parameters(), gd.scale_lr(0.01, "sqrt"))
    batches = gd.loader(data, 16, workers=0)
    for epoch in range(1, epochs + 1):
        for x, y in batches:
            loss = functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        gd.report(epoch, epochs, **gd.sync({"loss": loss.detach()}, weight=len(y)))


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Of all processes together."""
    model.eval()
    right = items = 0
    for x, y in gd.loader(data, 64, train=False, workers=0):
        right += int((model(x.to(device)).argmax(1) == y.to(device)).sum())
        items += len(y)
    return gd.sync({"accuracy": right / max(1, items)}, weight=items)["accuracy"]


def became(context: gd.Context) -> dict[str, Any]:
    """What was asked for, and what it is."""
    return {
        "asked": os.environ.get("GPUDECK_DIST_STRATEGY", "auto"),
        "timeout_s": os.environ.get("GPUDECK_DIST_TIMEOUT"),
        "strategy": context.strategy,
        "processes": context.world_size,
        "backend": context.backend or "-",
        "device": context.device.type,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on wine.")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with gd.init() as context:
        torch.manual_seed(0)
        train_data, test_data = wine()
        model = gd.wrap(nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3)))
        fit(model, train_data, args.epochs, context.device)
        result = became(context) | {"accuracy": accuracy(model, test_data, context.device)}
        if context.is_main:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(result) + "\n")
        gd.print0(result)


if __name__ == "__main__":
    main()
