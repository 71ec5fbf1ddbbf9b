"""Messages as JSON lines: what `gpudeck --headless --json` prints. docs/dev/json-lines.md tells every field.

Each line is one object in ASCII with `v` (the version of this format) and `event`. Within a version fields are added,
never renamed or removed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from .messages import Message, RunFinished

VERSION = 1

_NAMES = {"at": "at_s", "wall": "unix_s", "left_behind": "left_behind_pids"}
"""Fields whose name in the line is another than in the message, so that it carries its unit."""


def json_lines(message: Message) -> Iterator[str]:
    """The lines of a message, without line ends: one, but for `RunFinished`, which gives a `task_result` for each row
    and then `run_finished`. Numbers that JSON cannot say (infinity) are null."""
    if isinstance(message, RunFinished):
        for row in message.rows:
            yield _line("task_result", row)
        message = dataclasses.replace(message, rows=())
    yield _line(event_name(type(message)), message)


def event_name(kind: type) -> str:
    """TaskStarted -> task_started."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _line(event: str, content: object) -> str:
    fields: dict[str, Any] = _plain(content)
    if event == "run_finished":
        del fields["rows"]
    return json.dumps({"v": VERSION, "event": event, **fields}, allow_nan=False, separators=(", ", ": "))


def _plain(value: Any) -> Any:
    """Dataclasses as objects, times to the millisecond, text as valid Unicode."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if dataclasses.is_dataclass(value):
        return {
            _NAMES.get(field.name, field.name): _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    return value
