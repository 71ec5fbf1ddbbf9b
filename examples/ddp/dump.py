"""Dump the activations of a frozen network: each process does its share of the images and writes a file of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from activations import digits, frozen_network, write_part

import gpudeck.distributed as gd


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description="Dump activations.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the parts")
    args = parser.parse_args()
    with gd.init() as context:
        network = frozen_network().to(context.device)
        rows, x, y = [], [], []
        for numbers, images, labels in gd.loader(digits(), 128, train=False, workers=0):  # exact: each row once
            rows.append(numbers)
            x.append(network(images.to(context.device)).cpu())
            y.append(labels)
        write_part(args.out / f"part-{context.rank}.pt", torch.cat(rows), torch.cat(x), torch.cat(y))
        print(f"rank {context.rank} of {context.world_size}: {sum(map(len, rows))} rows", flush=True)


if __name__ == "__main__":
    main()
