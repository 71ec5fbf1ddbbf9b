"""Make more training rows of one shard's part: each is a mix of a row with another one of its class.

Row i belongs to shard i mod n. What is made of a row depends on no shard, so their number changes nothing.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from data import Array, load


def variants(x: Array, y: Array, row: int, copies: int) -> Array:
    """The row itself, and *copies* of it moved up to half of the way towards others of its class: mixup (Zhang et al.,
    arXiv:1710.09412) within a class."""
    rng = np.random.default_rng([row, copies])
    others = rng.choice(np.flatnonzero(y == y[row]), size=copies)
    share = rng.uniform(0, 0.5, size=(copies, 1)).astype(np.float32)
    return np.concatenate([x[row : row + 1], x[row] + share * (x[others] - x[row])])


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the rows of one shard.")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--copies", type=int, required=True)
    parser.add_argument("--shard", type=int, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    split = load(args.dataset)
    rows = range(args.shard, len(split.train_y), args.shards)
    x = np.stack([variants(split.train_x, split.train_y, row, args.copies) for row in rows])
    y = np.repeat(split.train_y[list(rows)][:, None], args.copies + 1, axis=1)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draft = args.out.with_suffix(".tmp")
    with draft.open("wb") as file:
        np.savez(file, rows=np.array(rows), x=x, y=y)
    os.replace(draft, args.out)
    print(f"shard {args.shard} of {args.shards}: {y.size} rows from {len(rows)}")


if __name__ == "__main__":
    main()
