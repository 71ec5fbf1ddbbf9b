"""What a task file may say, for people and editors, made of the same table of keys as the validation.

`python -m gpudeck.engine.taskfile.reference` rewrites the tables of docs/taskfile.md and the JSON Schema that ships.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from .schema import TABLES, TOP, Table

FILE = os.path.join(os.path.dirname(__file__), "tasks.schema.json")
PLACEHOLDER: Mapping[str, object] = {"type": "string", "pattern": r"\{(env\.)?[A-Za-z_][A-Za-z0-9_]*\}"}
_FILLED = ("task", "slurm", "distributed", "watch", "prune")
"""Tables in which a placeholder may stand for a value, and [defaults] may have what is required."""
_NOT_FILLED = ("matrix", "name")


def json_schema() -> dict[str, object]:
    """The schema as JSON values."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpudeck task file",
        **_object(TOP),
        "$defs": {name: _object(table, filled=name in _FILLED) for name, table in TABLES.items()},
    }


def written() -> str:
    """The text of the file that ships."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _object(table: Table, *, filled: bool = False) -> dict[str, object]:
    properties: dict[str, object] = {}
    for name, key in table.items():
        schema = key.kind.schema
        if filled and name not in _NOT_FILLED:
            schema = {"anyOf": [schema, PLACEHOLDER]}
        default = f". Default: {key.default}" if key.default and key.default != "required" else ""
        properties[name] = {**schema, "description": key.words + default}
    made: dict[str, object] = {"type": "object", "additionalProperties": False, "properties": properties}
    required = [name for name, key in table.items() if key.default == "required"]
    return {**made, "required": required} if required and not filled else made


PAGE = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "taskfile.md"))

_BLOCK = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(keys: Table) -> str:
    """One table of keys in Markdown."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, key in keys.items():
        rows.append("| " + " | ".join(map(_cell, (f"`{name}`", key.kind.words, key.default, key.words))) + " |")
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
