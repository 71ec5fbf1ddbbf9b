"""The tables of docs/taskfile.md, made of the schema.

`python -m gpudeck.engine.taskfile.reference` rewrites them and the JSON Schema that ships.
"""

from __future__ import annotations

import os
import re

from .jsonschema import FILE, written
from .schema import DECK, DISTRIBUTED, DOCTOR, GPU_PROFILE, METRIC, NOTIFY, RUNG, SLURM, TASK, WATCH, Table

TABLES = {
    "deck": DECK, "task": TASK, "metric": METRIC, "watch": WATCH, "rung": RUNG, "distributed": DISTRIBUTED,
    "slurm": SLURM, "notify": NOTIFY, "doctor": DOCTOR, "gpu_profile": GPU_PROFILE,
}  # fmt: skip
PAGE = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "taskfile.md"))

_BLOCK = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(keys: Table) -> str:
    """One table of keys in Markdown."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, key in keys.items():
        words = key.words + (" *(not in this version)*" if key.later else "")
        rows.append("| " + " | ".join(map(_cell, (f"`{name}`", key.kind.words, key.default, words))) + " |")
    return "\n".join(rows) + "\n"


def filled(page: str) -> str:
    """*page* with every `<!-- keys: NAME -->` block made anew."""
    return _BLOCK.sub(lambda match: f"{match[1]}{table(TABLES[match[2]])}{match[3]}", page)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Rewrite the shipped schema and the reference."""
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(written())
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(filled(page))


if __name__ == "__main__":
    main()
