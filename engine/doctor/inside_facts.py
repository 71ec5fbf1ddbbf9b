"""Scripts of inside/ run in a task's Python, and what they tell."""

from __future__ import annotations

import json
import os
from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "inside")
_MARK = "GPUDECK "


def script(name: str) -> str:
    """The text of a script, for `python -c`: its folder is not ours to put first on sys.path."""
    with open(os.path.join(_FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.read()


def told(out: str) -> list[dict[str, Any]]:
    """The objects that a script wrote, among what imports may have printed."""
    found: list[dict[str, Any]] = []
    for line in out.splitlines():
        before, mark, rest = line.partition(_MARK)
        if mark and not before:
            try:
                found.append(json.loads(rest))
            except ValueError:
                continue
    return found
