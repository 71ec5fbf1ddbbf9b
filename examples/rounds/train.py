"""Fit one algorithm to the generated rows of one dataset, and write its model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from algorithms import ALGORITHMS, Options, accuracy
from data import load, read_generated


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit one algorithm to one dataset.")
    parser.add_argument("--algorithm", choices=ALGORITHMS, required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    split = load(args.dataset)
    x, y = (torch.from_numpy(part).to(device) for part in read_generated(args.data, len(split.train_y)))
    print(f"{args.algorithm} on {len(y)} rows, batch {args.batch}, on {device}", flush=True)
    model = ALGORITHMS[args.algorithm].fit(x, y, int(y.max()) + 1, Options(args.epochs, args.batch, args.lr))
    print(f"accuracy on its own rows {accuracy(args.algorithm, model, x, y):.3f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draft = args.out.with_suffix(".tmp")
    torch.save({"algorithm": args.algorithm, "model": {name: each.cpu() for name, each in model.items()}}, draft)
    os.replace(draft, args.out)


if __name__ == "__main__":
    main()
