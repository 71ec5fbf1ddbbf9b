"""What became of each strategy, as a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

COLUMNS = ("asked", "timeout_s", "strategy", "processes", "backend", "device")


def main() -> None:
    parser = argparse.ArgumentParser(description="Gather the results into one table.")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = [f"| {' | '.join(COLUMNS)} | accuracy |", "|---" * len(COLUMNS) + "|--:|"]
    for path in sorted(args.results.glob("*.json")):
        result = json.loads(path.read_text())
        cells = [str(result[column]) for column in COLUMNS]
        lines.append(f"| {' | '.join(cells)} | {result['accuracy']:.3f} |")
    text = "\n".join(["# Strategies", "", *lines, ""])
    args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
