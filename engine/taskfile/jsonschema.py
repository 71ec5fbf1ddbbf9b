"""The JSON Schema of a task file (draft 2020-12), for editors; made of the same table of keys as the validation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from .schema import DECK, DISTRIBUTED, DOCTOR, GPU_PROFILE, METRIC, NOTIFY, PROFILE, SLURM, TASK, TOP, WATCH, Key, Table

FILE = os.path.join(os.path.dirname(__file__), "tasks.schema.json")
PLACEHOLDER: Mapping[str, object] = {"type": "string", "pattern": r"\{(env\.)?[A-Za-z_][A-Za-z0-9_]*\}"}
_NO_PLACEHOLDERS = frozenset(("matrix", "slurm", "name"))


def json_schema() -> dict[str, object]:
    """The schema as JSON values."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpudeck task file",
        "type": "object",
        "additionalProperties": False,
        "required": ["task"],
        "properties": {
            "deck": {"$ref": "#/$defs/deck"},
            "vars": TOP["vars"].kind.schema,
            "defaults": {"$ref": "#/$defs/defaults"},
            "profile": {"type": "object", "additionalProperties": {"$ref": "#/$defs/profile"}},
            "task": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/task"}},
            "slurm": {"$ref": "#/$defs/slurm"},
            "distributed": {"$ref": "#/$defs/distributed"},
            "gpu_profile": {"type": "array", "items": {**_table(GPU_PROFILE), "required": ["min_memory"]}},
            "doctor": _table(DOCTOR),
            "notify": {"$ref": "#/$defs/notify"},
        },
        "$defs": {
            "deck": _table(DECK),
            "task": _task(),
            "defaults": _task(),
            "slurm": _table(SLURM, placeholders=True),
            "notify": _table(NOTIFY),
            "distributed": _table(DISTRIBUTED, placeholders=True),
            "watch": _table(WATCH, placeholders=True),
            "metric": _table(METRIC),
            "profile": {
                "type": "object",
                "additionalProperties": False,
                "properties": {key: _in_profile(key) for key in PROFILE},
            },
        },
    }


def written() -> str:
    """The text of the file that ships."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _in_profile(key: str) -> Mapping[str, object]:
    return TOP["vars"].kind.schema if key == "vars" else {"$ref": f"#/$defs/{key}"}


def _table(table: Table, *, placeholders: bool = False) -> dict[str, object]:
    schemas = {name: key.kind.schema for name, key in table.items()}
    if placeholders:
        schemas = {name: {"anyOf": [schema, PLACEHOLDER]} for name, schema in schemas.items()}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _described(key, schemas[name]) for name, key in table.items()},
    }


def _task() -> dict[str, object]:
    parts = {"watch": {"$ref": "#/$defs/watch"}, "slurm": {"$ref": "#/$defs/slurm"}}
    metrics = {"type": "object", "additionalProperties": {"$ref": "#/$defs/metric"}}
    properties: dict[str, object] = {}
    for name, key in TASK.items():
        schema = parts.get(name) or (metrics if name == "metrics" else key.kind.schema)
        if name not in _NO_PLACEHOLDERS:
            schema = {"anyOf": [schema, PLACEHOLDER]}
        properties[name] = _described(key, schema)
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _described(key: Key, schema: Mapping[str, object]) -> dict[str, object]:
    words = f"{key.words}. Default: {key.default}" if key.default and key.default != "required" else key.words
    return {**schema, "description": words}
