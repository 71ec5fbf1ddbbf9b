"""84 real trainings on 4 GPUs: the engine's own decisions on a simulated clock, against the batches of four in which
they were run by hand. The lengths are in data/nlprompt_runs.csv, in the order in which the runs were started.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from typing import Literal

from common import Report, options

from gpudeck.engine.core.build import build
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import DeckFile, DeckSettings, TaskSpec, Work

GPUS = 4
Runs = Sequence[tuple[str, float]]
"""Name and seconds, in file order."""


def recorded() -> Runs:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "nlprompt_runs.csv")
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [(f"{row['dataset']}-{row['noise']}", float(row["elapsed_s"])) for row in rows]


def batches_s(runs: Runs) -> float:
    """Four at a time, the next four when the last of them has ended."""
    return sum(max(length for _, length in runs[at : at + GPUS]) for at in range(0, len(runs), GPUS))


def makespan_s(runs: Runs, order: Literal["file", "longest"]) -> float:
    """With order = "longest" the lengths are known from earlier runs."""
    tasks = [TaskSpec(name, "train", at, Work(("train", name)), name) for at, (name, _) in enumerate(runs)]
    deck = build(
        DeckFile("tasks.toml", "tasks", DeckSettings(order=order), tuple(tasks)),
        gpus=[Gpu(f"GPU-{index}", index, index) for index in range(GPUS)],
        cores=GPUS,
    )
    lengths = dict(runs)
    if order == "longest":
        for name, length in runs:
            deck.learned.success(name, length)
    planned = simulate(deck, lambda task: lengths[task.name])
    if len(planned) != len(runs):
        raise RuntimeError(f"{len(planned)} of {len(runs)} tasks ran")
    return max(item.end_s for item in planned)


def main() -> int:
    report = Report(options(__doc__))
    runs = recorded()
    batches_h = batches_s(runs) / 3600
    bound_h = sum(length for _, length in runs) / GPUS / 3600
    name = f"{len(runs)} trainings, {GPUS} GPUs"
    report.row(f"{name}: file order, batches", makespan_s(runs, "file") / 3600, batches_h, "h", "<= 22.45 h")
    report.row(f"{name}: longest first, batches", makespan_s(runs, "longest") / 3600, batches_h, "h", "<= 22.1 h")
    report.row(f"{name}: longest first, bound", makespan_s(runs, "longest") / 3600, bound_h, "h", "")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
