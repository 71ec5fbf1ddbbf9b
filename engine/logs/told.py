"""attempt-N.json read back, and what it says of the command beside the one that the task has now."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast


def read_record(path: str) -> dict[str, Any]:
    """What an attempt-N.json says; {} when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            record: object = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}


_SHELLS = ("bash", "sh")


def words_in(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The program and its arguments, secrets masked; () where the record does not tell."""
    words = record.get("command")
    return tuple(map(str, cast("list[object]", words))) if isinstance(words, list) else ()


def other_command(words: Sequence[str], command: str | Sequence[str]) -> str:
    """*words* as people write them; "" where there are none or they are *command*."""
    if not words or (not isinstance(command, str) and [*words] == [*command]):
        return ""
    text = words[2] if _runs_text(words) else shlex.join(words)
    return text if text != command else ""


def _runs_text(words: Sequence[str]) -> bool:
    """It is a command that the file has as one text."""
    return len(words) == 3 and words[1] == "-c" and os.path.basename(words[0]) in _SHELLS


def is_simulated(record: Mapping[str, Any]) -> bool:
    """Whether the attempt's GPUs were simulated ones."""
    gpus = record.get("gpus")
    found = cast("list[Mapping[str, Any]]", gpus) if isinstance(gpus, list) else []
    return any(str(gpu.get("uuid", "")).startswith("SIM-") for gpu in found)
