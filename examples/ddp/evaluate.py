"""Test the probes in one process, whatever number has trained them: the numbers must be the same as in training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from activations import probe, read_parts


@torch.no_grad()
def accuracy(folder: Path, activations: Path) -> float:
    """Of the model that lies in *folder*."""
    model = probe().eval()
    model.load_state_dict(torch.load(folder / "model.pt", weights_only=True)["model"])
    x, y = read_parts(activations)[1].tensors
    return int((model(x).argmax(1) == y).sum()) / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description="Test trained probes.")
    parser.add_argument("--activations", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("runs", type=Path, nargs="+", help="folders with model.pt and metrics.json")
    args = parser.parse_args()
    lines = ["| run | processes | accuracy in training | accuracy in one process |", "|---|--:|--:|--:|"]
    for run in args.runs:
        said = json.loads((run / "metrics.json").read_text())
        again = accuracy(run, args.activations)
        lines.append(f"| {run.name} | {said['processes']} | {said['accuracy']:.4f} | {again:.4f} |")
    text = "\n".join(["# Probes", "", *lines, ""])
    args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
