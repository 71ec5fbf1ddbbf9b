"""Accuracy of a model on rows that no training has seen."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from algorithms import accuracy
from data import load


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate one model.")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    saved = torch.load(args.model, weights_only=True)
    x, y = (torch.from_numpy(part) for part in load(args.dataset)[2:])
    score = accuracy(saved["algorithm"], saved["model"], x, y)
    result = {"dataset": args.dataset, "algorithm": saved["algorithm"], "rows": len(y), "accuracy": score}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result) + "\n")
    print(f"accuracy {score:.3f} on {len(y)} rows")


if __name__ == "__main__":
    main()
