"""Gather the runs' `metrics.json` files into one table and one plot: summary.md and accuracy.png in --out."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

LABELS = {"ce": "cross-entropy", "gce": "generalized cross-entropy"}
TITLES = {"sym": "symmetric noise", "asym": "asymmetric noise"}
WRONG_MAJORITY = """\
- Above 50% asymmetric noise most labels of every digit name the next digit: the wrong answer is the majority, and
  without clean labels no loss can tell."""


class Run(NamedTuple):
    """One metrics.json: test accuracies (0 to 1) by loss, one per seed."""

    noise_type: str
    noise_rate: float
    accuracy: dict[str, list[float]]


def read_runs(folder: Path, rates: Sequence[float] | None = None) -> list[Run]:
    """The runs below *folder*, of these noise rates or of all: symmetric noise first, then by rate."""
    found = [json.loads(path.read_text()) for path in folder.glob("*/metrics.json")]
    runs = [Run(run["noise_type"], run["noise_rate"], run["accuracy"]) for run in found]
    if rates is not None:
        runs = [run for run in runs if run.noise_rate in rates]
    return sorted(runs, key=lambda run: (list(TITLES).index(run.noise_type), run.noise_rate))


def table(runs: Sequence[Run]) -> list[str]:
    lines = [
        "| noise | wrong labels | cross-entropy | generalized cross-entropy | difference |",
        "|---|--:|--:|--:|--:|",
    ]
    for run in runs:
        ce, gce = (100 * mean(run.accuracy[loss]) for loss in LABELS)
        lines.append(f"| {run.noise_type} | {run.noise_rate:.1%} | {ce:.1f} | {gce:.1f} | {gce - ce:+.1f} |")
    return lines


def finding(runs: Sequence[Run], noise_type: str) -> str:
    """One sentence: what the most noise costs each loss, measured against the least noise."""
    least, *_, most = [run for run in runs if run.noise_type == noise_type]
    ce, gce = (100 * (mean(least.accuracy[loss]) - mean(most.accuracy[loss])) for loss in LABELS)
    span = f"from {least.noise_rate:.1%} to {most.noise_rate:.1%} wrong labels"
    return f"{TITLES[noise_type].capitalize()}, {span}: cross-entropy loses {ce:.1f} points, the robust loss {gce:.1f}."


def summary(runs: Sequence[Run]) -> str:
    seeds = len(runs[0].accuracy["ce"])
    present = [kind for kind in TITLES if sum(run.noise_type == kind for run in runs) > 1]
    lines = ["# Digits with noisy labels", "", f"Accuracy on clean test labels in percent, mean of {seeds} seeds.", ""]
    lines += [*table(runs), "", *(f"- {finding(runs, kind)}" for kind in present)]
    if any(run.noise_type == "asym" and run.noise_rate > 0.5 for run in runs):
        lines.append(WRONG_MAJORITY)
    return "\n".join([*lines, "", "![accuracy against noise](accuracy.png)", ""])


def plot(runs: Sequence[Run], path: Path) -> None:
    """Mean accuracy against the rate, one panel per noise type; the band is the range over the seeds."""
    figure, panels = plt.subplots(1, len(TITLES), figsize=(9, 3.5), sharey=True, layout="constrained")
    for panel, (kind, title) in zip(panels, TITLES.items(), strict=True):
        chosen = [run for run in runs if run.noise_type == kind]
        rates = [100 * run.noise_rate for run in chosen]
        for loss, label in LABELS.items():
            scores = [[100 * score for score in run.accuracy[loss]] for run in chosen]
            panel.plot(rates, [mean(values) for values in scores], marker="o", label=label)
            panel.fill_between(rates, [min(values) for values in scores], [max(values) for values in scores], alpha=0.2)
        panel.set(title=title, xlabel="wrong training labels (%)", ylim=(0, 100))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy on clean test labels (%)")
    panels[0].legend(loc="lower left")
    figure.savefig(path, dpi=150, format="png")
    plt.close(figure)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside *path*, then put it in place: a stop in between leaves the old file whole."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    os.replace(temporary, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gather the runs into one table and one plot.")
    parser.add_argument("--runs", type=Path, required=True, help="folder with one folder per run")
    parser.add_argument("--rates", type=json.loads, help="JSON list: only runs of these noise rates")
    parser.add_argument("--out", type=Path, required=True, help="folder for summary.md and accuracy.png")
    args = parser.parse_args()
    runs = read_runs(args.runs, args.rates)
    if not runs:
        raise SystemExit(f"no metrics.json in the folders of {args.runs}: run train.py first")
    args.out.mkdir(parents=True, exist_ok=True)
    text = summary(runs)
    replace_file(args.out / "accuracy.png", lambda path: plot(runs, path))
    replace_file(args.out / "summary.md", lambda path: path.write_text(text))
    print(text)


if __name__ == "__main__":
    main()
