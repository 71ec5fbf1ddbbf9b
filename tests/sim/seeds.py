"""From seeds to what their worlds came to."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain

from tests.sim.plan import plan_of
from tests.sim.slurm_world import SlurmWorld, cluster_of
from tests.sim.world import World

MOST_S = 300.0
"""For one planted defect."""


SLURM_EVERY = 4
"""Of so many seeds one is that of a world with a cluster."""


def _world(seed: int, folder: str) -> World:
    plan = plan_of(seed)
    return World(plan, folder) if seed % SLURM_EVERY else SlurmWorld(plan, cluster_of(seed), folder)


def world_of(seed: int, folder: str) -> tuple[World, BaseException | None]:
    """The world of a seed after its run, and what was broken in it. *folder*: for logs; on a disk in memory it is
    quick."""
    world = _world(seed, f"{folder}/{seed}")
    try:
        world.run()
    except Exception as error:  # also what an engine did not catch
        return world, error
    finally:
        world.close()
    return world, None


def noticed(
    folder: str, most: int = 1_000_000, every: int = 1, known: Iterable[int] = ()
) -> tuple[int, BaseException | None]:
    """The first seed in whose world something is broken, and what; None: in none of *most*, or of `MOST_S`. *every*:
    of so many seeds only the last. *known*: seeds to begin with."""
    began, seed = time.monotonic(), 0
    for seed in chain(known, range(every, most * every + 1, every)):
        if time.monotonic() - began > MOST_S:
            break
        _, error = world_of(seed, folder)
        if error is not None:
            return seed, error
    return seed, None
