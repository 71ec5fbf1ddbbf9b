"""attempt-N.json read back."""

from __future__ import annotations

import json
from typing import Any, cast


def read_record(path: str) -> dict[str, Any]:
    """What an attempt-N.json says; {} when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            record: object = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}
