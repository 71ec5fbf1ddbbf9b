"""Adds up ten items over all processes: python evaluates.py FOLDER."""

import json
import sys
from pathlib import Path

import gpudeck.distributed as gd

context = gd.init(timeout_s=60)
loader = gd.loader(list(range(10)), 2, train=False, workers=0)
values = [int(value) for batch in loader for value in batch]
mean = gd.sync({"value": sum(values) / max(1, len(values))}, weight=len(values))
Path(sys.argv[1], f"rank{context.rank}.json").write_text(json.dumps({"items": values, "mean": mean["value"]}))
