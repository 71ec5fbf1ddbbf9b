"""The datasets, split and scaled, and the generated rows put together again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

Array = np.ndarray[Any, np.dtype[Any]]
LOADERS: dict[str, Callable[..., tuple[Array, Array]]] = {"digits": load_digits, "breast_cancer": load_breast_cancer}
TEST_SHARE = 0.3


class Split(NamedTuple):
    """Rows are (n, features) float32, each feature with mean 0 and deviation 1 in training; labels (n,) int64."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array


def load(dataset: str) -> Split:
    """The same split at every call."""
    x, y = LOADERS[dataset](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order].astype(np.int64)
    tests = int(TEST_SHARE * len(y))
    mean, deviation = x[tests:].mean(axis=0), x[tests:].std(axis=0)
    x = ((x - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
    return Split(x[tests:], y[tests:], x[:tests], y[:tests])


def read_generated(folder: Path, rows: int) -> tuple[Array, Array]:
    """What all shards have made of the training rows 0 to *rows* - 1, in the order of the rows.

    However many shards there were, the result is the same. Raises SystemExit where a row is missing.
    """
    made: dict[int, tuple[Array, Array]] = {}
    for path in sorted(folder.glob("shard-*.npz")):
        with np.load(path) as shard:
            made.update(zip(shard["rows"].tolist(), zip(shard["x"], shard["y"], strict=True), strict=True))
    if missing := set(range(rows)) - set(made):
        raise SystemExit(f"{folder}: nothing was generated of {len(missing)} of {rows} rows: run all shards")
    parts = [made[row] for row in range(rows)]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
