"""Names of nodes as Slurm compresses them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MOST = 100_000
"""Nodes in one range. More is no list of Slurm's."""


def expand_nodes(nodes: str) -> tuple[str, ...]:
    """Names in a compressed list: "gpu[01-03,7],login1". What is no such list is one name."""
    found: list[str] = []
    for part in _apart(nodes):
        found.extend(_expanded(part))
    return tuple(found)


def _apart(nodes: str) -> Iterator[str]:
    """Parts between commas that are in no brackets."""
    yield from (part for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", nodes) if part)


def _expanded(part: str) -> Iterator[str]:
    head, _, rest = part.partition("[")
    inside, closing, tail = rest.partition("]")
    if not closing:
        yield part
        return
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and int(last) - int(first) < _MOST:
            numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        else:
            numbers = [piece]
        for number in numbers:
            yield from (f"{head}{number}{each}" for each in (_expanded(tail) if tail else ("",)))
