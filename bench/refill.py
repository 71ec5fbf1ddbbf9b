"""How long a slot is empty: from a task's end to the start of the next one on it, as the tasks' own clocks tell.

4 simulated GPUs, a deck of 100,000 tasks of 50 to 100 ms of which the first few hundred are run, 1,500 idle processes
on the machine. The peers: waitpid and Popen without a shell, a log or a journal; and waitpid with the engine's wrapper,
which is what would remain if the engine took no time at all. State and logs are in memory; then once on a disk.

An empty slot is two process starts, and what those cost is the machine's. The budgets in milliseconds were set on one
where `xargs -P4` needs 0.40 ms for a task of `/bin/true`; what it needs here is printed beside them.
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
from common import GPUDECK, Report, disk, folder_on, matrix_deck, options, percentile, seconds, tmpfs, write_deck

SLOTS = 4
TASK_MS = 50
_ROW = struct.Struct("qqq")
"""slot, start, end in nanoseconds: what stamp.c writes."""
_GIVE_UP_S = 120.0
_XARGS_MS = 0.40
"""What xargs needs a task where the budgets hold as they are written."""
_XARGS_TASKS = 2_000

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


def bare(base: str, stamp: str, ends: int) -> Gaps:
    with folder_on(base) as folder:
        argv = (stamp, f"{folder}/stamps", str(TASK_MS))
        peers.bare_loop(argv, SLOTS, ends, _slot_env)
        return gaps(argv[1])


def wrapped(base: str, stamp: str, ends: int) -> Gaps:
    with folder_on(base) as folder:
        argv = (stamp, f"{folder}/stamps", str(TASK_MS))
        peers.wrapper_loop(folder, argv, SLOTS, ends, _slot_env)
        return gaps(argv[1])


def slowness() -> float:
    """How many times as long a process takes here as where the budgets were set."""
    return seconds(lambda: peers.xargs(_XARGS_TASKS, SLOTS)) * 1e3 / _XARGS_TASKS / _XARGS_MS


def compare(
    report: Report,
    where: str,
    rounds: Sequence[tuple[Gaps, Gaps, Gaps]],
    budgets: Mapping[int, str],
) -> None:
    """A line for each peer and percentile."""
    for peer, name in ((1, "bare loop"), (2, "wrapper loop")):
        for percent, label in ((50, "p50"), (99, "p99"), (100, "max")):
            mine = [percentile(gaps[0], percent) for gaps in rounds]
            theirs = [percentile(gaps[peer], percent) for gaps in rounds]
            budget = budgets.get(percent, "") if peer == 1 else ""
            report.row(f"empty slot {where} {label}, {name}", mine, theirs, "ms", budget)


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    if shutil.which("cc") is None:
        report.absent("empty slot", "C compiler")
        return 0
    deck_tasks, ends, idle = (2_000, 100, 100) if given.quick else (100_000, 600, 1_500)
    with folder_on(disk()) as folder:
        stamp = compiled(folder)

        def one_round(base: str) -> tuple[Gaps, Gaps, Gaps]:
            return ours(base, stamp, deck_tasks, ends), bare(base, stamp, ends), wrapped(base, stamp, ends)

        end_idle = peers.idle_processes(idle)
        try:
            memory = tmpfs()
            if memory is not None:
                slow: list[float] = []
                rounds: list[tuple[Gaps, Gaps, Gaps]] = []
                for _ in range(given.rounds(3)):
                    slow.append(slowness())
                    rounds.append(one_round(memory))
                scale = [_XARGS_MS * each for each in slow]
                report.row("a task of xargs, for scale", scale, [_XARGS_MS] * len(slow), "ms", "")
                compare(report, "in memory", rounds, {50: "<= 2 ms", 99: "<= 6 ms", 100: "<= 50 ms"})
            compare(report, "on disk", [one_round(disk())], {})
        finally:
            end_idle()
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
