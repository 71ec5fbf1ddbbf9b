"""Worlds from seeds; prints each promise that was broken.

python -m tests.sim [--first SEED] [--runs N]     of one world alone the whole trace
python -m tests.sim [--first SEED] --minutes N    as many worlds as there is time for
python -m tests.sim --doublecheck                 each seed twice: the same trace
python -m tests.sim --slurm                       of the worlds with a cluster alone
python -m tests.sim --planted [WORDS]             which world notices each planted defect, or that of this name
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from itertools import count

from tests.sim.planted import PLANTED
from tests.sim.seeds import SLURM_EVERY, noticed, world_of
from tests.sim.slurm_planted import ON_CLUSTER


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--doublecheck", action="store_true")
    parser.add_argument("--planted", nargs="?", const="", metavar="WORDS")
    parser.add_argument("--slurm", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpudeck-sim-", dir="/dev/shm") as folder:
        return _runs(args, folder) if args.planted is None else _plant(folder, args.planted)


def _plant(folder: str, words: str) -> int:
    missed = 0
    for name, plant in (*PLANTED.items(), *ON_CLUSTER.items()):
        if words not in name:
            continue
        with plant():
            seed, error = noticed(folder, every=SLURM_EVERY if name in ON_CLUSTER else 1)
        missed += error is None
        told = f"not noticed in {seed} worlds" if error is None else f"world {seed}: {_in_words(error)}"
        print(f"{name}: {told}", flush=True)
    return missed


def _runs(args: argparse.Namespace, folder: str) -> int:
    """Processes share the worlds, one for each core."""
    began = time.monotonic()
    processes = 1 if args.runs == 1 else min(os.cpu_count() or 1, args.runs)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        shares = pool.starmap(_share, [(args, folder, share, processes) for share in range(processes)])
    runs, failed = (sum(column) for column in zip(*shares, strict=True))
    print(f"{runs} worlds, {failed} broken, {60 * runs / (time.monotonic() - began):.0f} a minute")
    return int(failed > 0)


def _share(args: argparse.Namespace, folder: str, share: int, of: int) -> tuple[int, int]:
    """Run every so-many-th world; returns how many, and how many broke a promise."""
    began, failed, runs = time.monotonic(), 0, 0
    every = SLURM_EVERY if args.slurm else 1
    first = -(-args.first // every) * every
    for seed in count(first + share * every, of * every):
        passed_s = time.monotonic() - began
        if share + runs * of >= args.runs if args.minutes is None else passed_s > 60 * args.minutes:
            break
        runs += 1
        world, error = world_of(seed, folder)
        if args.runs == 1:
            print("\n".join(world.box.trace))
            if error is not None:
                traceback.print_exception(error)
        if args.doublecheck and error is None and world_of(seed, folder)[0].box.trace != world.box.trace:
            error = AssertionError("the same seed gave another run")
        if error is not None:
            failed += 1
            print(f"world {seed}: {_in_words(error)}", flush=True)
    return runs, failed


def _in_words(error: BaseException) -> str:
    """What broke; of an assertion without words the line that asks."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f"{os.path.basename(frame.filename)}:{frame.lineno}: {frame.line}" for frame in last)
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__}: {where}"


if __name__ == "__main__":
    sys.exit(main())
