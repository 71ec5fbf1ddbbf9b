"""A group that somebody else has set up, as accelerate and Lightning do."""

import gc

import torch
import torch.distributed as dist

import gpudeck.distributed as gd

dist.init_process_group("gloo")
with gd.init() as context:
    model = gd.wrap(torch.nn.Linear(1, 1))
    mean = gd.sync({"rank": context.rank})["rank"]
print(context.rank, context.world_size, type(model).__name__, mean, dist.is_initialized())
del model
gc.collect()
dist.destroy_process_group()
