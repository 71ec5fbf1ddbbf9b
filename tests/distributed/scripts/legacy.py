"""A script written for torch.distributed.launch, with its argument."""

import argparse

import gpudeck.distributed as gd

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, required=True)
given = parser.parse_args()
with gd.init_distributed(timeout_s=60) as context:
    print(f"{context.local_rank == given.local_rank} {gd.sync({'rank': context.rank})}\n", end="", flush=True)
