"""One table of all evaluations: a row for each algorithm, a column for each dataset."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """Accuracies in percent; the best of each dataset are bold."""
    score = {(result["algorithm"], result["dataset"]): result["accuracy"] for result in results}
    algorithms, datasets = (sorted(set(names)) for names in zip(*score, strict=True))
    best = {dataset: max(score.get((each, dataset), 0) for each in algorithms) for dataset in datasets}
    lines = [f"| algorithm | {' | '.join(datasets)} |", "|---" + "|--:" * len(datasets) + "|"]
    for algorithm in algorithms:
        cells = [cell(score.get((algorithm, dataset)), best[dataset]) for dataset in datasets]
        lines.append(f"| {algorithm} | {' | '.join(cells)} |")
    return lines


def cell(accuracy: float | None, best: float) -> str:
    if accuracy is None:
        return "-"
    return f"**{accuracy:.1%}**" if accuracy == best else f"{accuracy:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Gather the evaluations into one table.")
    parser.add_argument("--evaluation", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for path in sorted(args.evaluation.glob("*.json"))]
    text = "\n".join(["# Accuracy on test rows", "", *table(results), ""])
    args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
