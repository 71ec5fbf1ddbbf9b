"""Joins and says its place: python meets.py SECONDS."""

import sys

import gpudeck.distributed as gd

with gd.init(timeout_s=float(sys.argv[1])) as context:
    print(context.rank, context.world_size, context.local_rank, context.launcher, gd.sync({"ranks": context.rank}))
