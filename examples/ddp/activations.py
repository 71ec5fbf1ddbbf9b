"""Digits, a frozen network whose activations are dumped, the probe that is trained on them, and the dump's files."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

TEST_ROWS = 497
FEATURES, CLASSES = 512, 10


def digits() -> TensorDataset:
    """Rows of (number, image (1, 8, 8) in 0..1, label), always in the same order; the first TEST_ROWS are for tests."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    pixels = torch.from_numpy(images).float().div(16).view(-1, 1, 8, 8)[order]
    return TensorDataset(torch.arange(len(order)), pixels, torch.from_numpy(labels).long()[order])


def frozen_network() -> nn.Module:
    """Convolutions with random weights, the same in every process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
        return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten()).eval().requires_grad_(False)


def probe() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def write_part(path: Path, rows: Tensor, x: Tensor, y: Tensor) -> None:
    """One process's share of the activations, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    torch.save({"rows": rows, "x": x, "y": y}, draft)
    os.replace(draft, path)


def read_parts(folder: Path) -> tuple[TensorDataset, TensorDataset]:
    """The activations for training and for tests, put together from all parts: however many there were.

    Raises SystemExit where rows are missing.
    """
    parts = [torch.load(path, weights_only=True) for path in sorted(folder.glob("part-*.pt"))]
    total = len(digits())
    x, y = torch.empty(total, FEATURES), torch.full((total,), -1)
    for part in parts:
        x[part["rows"]], y[part["rows"]] = part["x"], part["y"]
    if missing := int((y < 0).sum()):
        raise SystemExit(f"{folder}: {missing} of {total} rows are missing: run dump.py")
    return TensorDataset(x[TEST_ROWS:], y[TEST_ROWS:]), TensorDataset(x[:TEST_ROWS], y[:TEST_ROWS])
