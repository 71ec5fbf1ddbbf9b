"""TOML values on one line, as people write them in a task file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time

import tomli_w

from ..taskfile.values import as_text, is_list, is_table

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def inline(value: object) -> str:
    """A value as TOML: lists and tables stay on their line, floats as they were written."""
    if is_table(value):
        return "{ " + ", ".join(f"{key_text(key)} = {inline(item)}" for key, item in value.items()) + " }"
    if is_list(value):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, (bool, int, float, datetime, date, time)):
        return as_text(value)
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def key_text(key: str) -> str:
    """A key, quoted where it must be."""
    return key if _BARE.fullmatch(key) else inline(key)


def table_lines(header: str, values: Mapping[str, object]) -> str:
    """A table with a line for each key."""
    return "\n".join([header, *(f"{key_text(key)} = {inline(value)}" for key, value in values.items())]) + "\n"
