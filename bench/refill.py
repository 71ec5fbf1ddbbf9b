"""How long a slot is empty: from a task's end to the start of the next one on it, as the tasks' own clocks tell.

4 simulated GPUs, a deck of 100,000 tasks of 50 to 100 ms of which the first few hundred are run, 1,500 idle processes
on the machine. An empty slot is two process starts, and what those cost is the machine's: the peer is a loop of waitpid
with the engine's wrapper, which is what would remain if the engine took no time at all. State and logs are in memory;
then once on a disk.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import peers
from common import GPUDECK, Report, disk, folder_on, matrix_deck, options, percentile, tmpfs, write_deck

SLOTS = 4
TASK_MS = 50
_ROW = struct.Struct("qqq")
"""slot, start, end in nanoseconds: what stamp.c writes."""
_GIVE_UP_S = 120.0

Gaps = list[float]
"""Milliseconds."""


def compiled(folder: str) -> str:
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stamp.c")
    subprocess.run(("cc", "-O1", "-o", f"{folder}/stamp", source), check=True)
    return f"{folder}/stamp"


def gaps(path: str) -> Gaps:
    """Ends to next starts on the same slot."""
    with open(path, "rb") as file:
        rows = sorted(_ROW.iter_unpack(file.read()), key=lambda row: row[1])
    by_slot: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for slot, start_ns, end_ns in rows:
        by_slot[slot].append((start_ns, end_ns))
    return [(after[0] - before[1]) / 1e6 for runs in by_slot.values() for before, after in pairwise(runs)]


def ours(base: str, stamp: str, deck_tasks: int, ends: int) -> Gaps:
    with folder_on(base) as folder:
        out = f"{folder}/stamps"
        task = f'["{stamp}", "{out}", "{TASK_MS}"]'
        write_deck(folder, matrix_deck(deck_tasks, task, deck=f'gpus = "sim:{SLOTS}"', task=""))
        with open(f"{folder}/said", "wb") as said:
            engine = subprocess.Popen(
                (*GPUDECK, "--headless", "tasks.toml", "-q"), cwd=folder, stdout=said, stderr=said
            )
        try:
            _wait_for(out, ends, engine)
        finally:
            engine.send_signal(signal.SIGINT)
            engine.wait()
        return gaps(out)


def _wait_for(path: str, ends: int, engine: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _GIVE_UP_S
    while not os.path.exists(path) or os.path.getsize(path) < ends * _ROW.size:
        if engine.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the engine ended or hangs, exit code {engine.poll()}: see {path}")
        time.sleep(0.05)


def _slot_env(slot: int) -> dict[str, str]:
    return {**os.environ, "CUDA_VISIBLE_DEVICES": str(slot)}


def wrapped(base: str, stamp: str, ends: int) -> Gaps:
    with folder_on(base) as folder:
        argv = (stamp, f"{folder}/stamps", str(TASK_MS))
        peers.wrapper_loop(folder, argv, SLOTS, ends, _slot_env)
        return gaps(argv[1])


def compare(report: Report, where: str, rounds: Sequence[Mapping[str, Gaps]], budgets: Mapping[int, str]) -> None:
    """A line for each percentile."""
    for percent, label in ((50, "p50"), (99, "p99"), (100, "max")):
        mine = [percentile(gaps["ours"], percent) for gaps in rounds]
        theirs = [percentile(gaps["loop"], percent) for gaps in rounds]
        report.row(f"empty slot {where} {label}, wrapper loop", mine, theirs, "ms", budgets.get(percent, ""))


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    if shutil.which("cc") is None:
        report.absent("empty slot", "C compiler")
        return 0
    deck_tasks, ends, idle = (2_000, 100, 100) if given.quick else (100_000, 600, 1_500)
    with folder_on(disk()) as folder:
        stamp = compiled(folder)

        def turns(base: str, count: int) -> list[dict[str, Gaps]]:
            """In turns, so that a busy minute of the machine meets both sides."""
            found: list[dict[str, Gaps]] = []
            for number in range(count):
                sides = {
                    "ours": lambda: ours(base, stamp, deck_tasks, ends),
                    "loop": lambda: wrapped(base, stamp, ends),
                }
                names = ("ours", "loop") if number % 2 == 0 else ("loop", "ours")
                found.append({name: sides[name]() for name in names})
            return found

        end_idle = peers.idle_processes(idle)
        try:
            if (memory := tmpfs()) is not None:
                compare(report, "in memory", turns(memory, given.rounds(3)), {50: "<= 1.3 x", 99: "<= 1.3 x"})
            compare(report, "on disk", turns(disk(), 1), {})
        finally:
            end_idle()
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
