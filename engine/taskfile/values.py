"""TOML values as text: what a placeholder puts into a command, and what an error message shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import TypeGuard

MAX_DEPTH = 100
"""Of tables and lists in each other."""
SHOWN_CHARACTERS = 60
"""Longest text that an error message repeats whole."""


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


class SourceFloat(float):
    """A float that remembers how the file wrote it: 1e-4 stays 1e-4, 0.50 stays 0.50."""

    text: str

    def __new__(cls, text: str) -> SourceFloat:
        made = super().__new__(cls, text)
        made.text = text.replace("_", "")
        return made


def as_text(value: object) -> str:
    """A value as it appears in a command: floats as written, true/false, lists and tables as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, SourceFloat):
        return value.text
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return compact_json(value) if is_list(value) or is_table(value) else str(value)


def compact_json(value: object) -> str:
    """JSON without spaces, numbers as the file wrote them."""
    if is_list(value):
        return "[" + ",".join(map(compact_json, value)) + "]"
    if is_table(value):
        items = (f"{json.dumps(key, ensure_ascii=False)}:{compact_json(item)}" for key, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, (bool, int, float)):
        return as_text(value)
    return json.dumps(as_text(value), ensure_ascii=False)


def shown(value: object) -> str:
    """A value for an error message, cut where it is long."""
    text = compact_json(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def kind_of(value: object) -> str:
    """What a TOML value is, in the words of the documentation."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date"


def has_nul(value: object) -> bool:
    """Whether a NUL character is anywhere in a value or its keys."""
    if is_table(value):
        return any("\0" in key or has_nul(item) for key, item in value.items())
    if is_list(value):
        return any(map(has_nul, value))
    return isinstance(value, str) and "\0" in value


def deeper(value: object, depth: int) -> tuple[str | int, ...]:
    """The way to what is nested deeper than *depth* in a value; () where nothing is."""
    if not depth:
        return ("",)
    for key, item in value.items() if is_table(value) else enumerate(value) if is_list(value) else ():
        if (is_list(item) or is_table(item)) and (below := deeper(item, depth - 1)):
            return (key, *below)
    return ()


def identity(value: object) -> object:
    """What a value is known by, as a user means it: 0.50 is 0.5, but true is not 1. Can be looked up in a set."""
    if is_list(value):
        return tuple(map(identity, value))
    if is_table(value):
        return frozenset((key, identity(item)) for key, item in value.items())
    return isinstance(value, bool), value
