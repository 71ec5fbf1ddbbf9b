"""How long a slot is empty: from a task's end to the start of the next one on it, as the tasks' own clocks tell.

4 simulated GPUs, a deck of 100,000 tasks of 50 to 100 ms of which the first few hundred are run, 1,500 idle processes on the
machine, state and logs on a disk. The peer is a bare loop: waitpid, then Popen without a shell, a log or a journal.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import peers
from common import GPUDECK, Report, disk, folder_on, matrix_deck, options, write_deck

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


def ours(stamp: str, deck_tasks: int, ends: int) -> Gaps:
    with folder_on(disk()) as folder:
        out = f"{folder}/stamps"
        command = f'["{stamp}", "{out}", "{TASK_MS}"]'
        write_deck(folder, matrix_deck(deck_tasks, command, deck=f'gpus = "sim:{SLOTS}"', task=""))
        with open(f"{folder}/said", "wb") as said:
            engine = subprocess.Popen((*GPUDECK, "--headless", "tasks.toml", "-q"), cwd=folder, stdout=said, stderr=said)
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


def bare(stamp: str, ends: int) -> Gaps:
    with folder_on(disk()) as folder:
        argv = (stamp, f"{folder}/stamps", str(TASK_MS))
        peers.bare_loop(argv, SLOTS, ends, lambda slot: {**os.environ, "CUDA_VISIBLE_DEVICES": str(slot)})
        return gaps(argv[1])


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if percent < 100 else max(values)


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    if shutil.which("cc") is None:
        report.absent("refill", "C compiler")
        return 0
    deck_tasks, ends, idle = (2_000, 100, 100) if given.quick else (100_000, 600, 1_500)
    rounds: list[tuple[Gaps, Gaps]] = []
    with folder_on(disk()) as folder:
        stamp = compiled(folder)
        end_idle = peers.idle_processes(idle)
        try:
            for _ in range(given.rounds(3)):
                rounds.append((ours(stamp, deck_tasks, ends), bare(stamp, ends)))
        finally:
            end_idle()
    for percent, name, budget in ((50, "p50", "<= 2 ms"), (99, "p99", "<= 6 ms"), (100, "max", "<= 50 ms")):
        mine = [percentile(of_ours, percent) for of_ours, _ in rounds]
        theirs = [percentile(of_bare, percent) for _, of_bare in rounds]
        report.row(f"empty slot {name}, {idle} idle processes, bare loop", mine, theirs, "ms", budget)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
