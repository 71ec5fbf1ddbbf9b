"""How much of the GPUs' time is used: 64 sleeps of 0.5 to 2 s on 8 simulated GPUs.

In file order against list scheduling of the same order at zero cost; then once more with order = "longest", which
knows the lengths from the first run.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections.abc import Sequence

from common import Report, disk, folder_on, headless, options, write_deck

GPUS = 8
SEED = 20


def lengths_s(count: int) -> list[float]:
    draw = random.Random(SEED)
    return [round(draw.uniform(0.5, 2.0), 3) for _ in range(count)]


def list_schedule_s(lengths: Sequence[float], slots: int) -> float:
    """Makespan when each task in turn goes to the slot that is free first, at once."""
    free = [0.0] * slots
    for length in lengths:
        heapq.heappush(free, heapq.heappop(free) + length)
    return max(free)


def deck(lengths: Sequence[float], order: str) -> str:
    cases = ", ".join(f"{{ i = {number}, s = {length} }}" for number, length in enumerate(lengths))
    return (
        f'[deck]\ngpus = "sim:{GPUS}"\norder = "{order}"\n'
        f'[[task]]\nname = "sleep-{{i}}"\ncommand = ["sleep", "{{s}}"]\nmatrix.case = [{cases}]\n'
    )


def wall_s(said: str) -> tuple[float, float]:
    """(first start to last end, start of the run to its end) from the JSON lines of a run."""
    events = [json.loads(line) for line in said.splitlines()]
    starts = [event["at_s"] for event in events if event["event"] == "task_started"]
    ends = [event["at_s"] for event in events if event["event"] == "task_ended"]
    return max(ends) - min(starts), events[-1]["wall_s"]


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    lengths = lengths_s(16 if given.quick else 64)
    total_s = sum(lengths)
    rounds: list[tuple[float, float, float]] = []
    for _ in range(given.rounds(3)):
        with folder_on(disk()) as folder:
            write_deck(folder, deck(lengths, "file"))
            in_order_s, whole_s = wall_s(headless(folder, "--json"))
            write_deck(folder, deck(lengths, "longest"))
            _, longest_s = wall_s(headless(folder, "--json", "--no-skip-existing"))
            rounds.append((in_order_s, whole_s, longest_s))
    in_order, whole, longest = (list(column) for column in zip(*rounds, strict=True))
    best_s = list_schedule_s(lengths, GPUS)
    best_longest_s = list_schedule_s(sorted(lengths, reverse=True), GPUS)
    name = f"{len(lengths)} sleeps, {GPUS} GPUs"
    report.row(f"{name}: makespan, list schedule", in_order, [best_s] * len(rounds), "s", "<= 1.02 x")
    report.row(f"{name}: speed-up, file order", [total_s / w for w in whole], [total_s / best_s] * len(rounds), "", "")
    budget = "" if given.quick else ">= 7.8 fold"
    best = [total_s / best_longest_s] * len(rounds)
    report.row(f"{name}: speed-up, longest first", [total_s / w for w in longest], best, "", budget)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
