"""Short trainings of two processes that leave all else to the end: models alive, no finish(). python ends.py TIMES.

Each process is forked off one that has imported torch, and ends as an interpreter does; their exit codes are printed.
"""

import os
import sys

import torch
import torch._dynamo  # DDP imports it at its first use: two seconds, once here instead of in each process

import gpudeck.distributed as gd
from tests.distributed.ranks import rank_environments


def train() -> torch.nn.Module:
    gd.init(timeout_s=60)
    model = gd.wrap(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)))
    for _ in range(4):
        model(torch.randn(4, 8)).pow(2).mean().backward()
    return model


def forked(environment: dict[str, str]) -> int:
    """The pid of a child; in the child: 0."""
    child = os.fork()
    if not child:
        os.environ.update(environment)
    return child


for _ in range(int(sys.argv[1])):
    children = [0, 0]
    for rank, environment in enumerate(rank_environments((0, 1), 2)):
        children[rank] = forked(environment)
        if not children[rank]:
            trained = train()
            sys.exit()
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
