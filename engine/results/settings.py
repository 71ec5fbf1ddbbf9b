"""Which values of params are one setting: numbers that are equal, however they are written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation


def one_spelling(tasks: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Params of tasks, each number as the first of them writes it: 1e-1 becomes 0.1."""
    first: dict[tuple[str, object], str] = {}
    return [
        {name: first.setdefault((name, _meant(value)), value) for name, value in params.items()} for params in tasks
    ]


def _meant(text: str) -> object:
    """What a value is the same as. 1.10 may be a version, and 007 a name: they are as they are written."""
    whole, _, fraction = text.partition(".")
    padded = (fraction.endswith("0") and fraction.strip("0") != "") or (len(whole) > 1 and whole.startswith("0"))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() and not (padded and text.replace(".", "").isdigit()) else text
