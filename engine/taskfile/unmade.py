"""Entries with mistakes, of which no tasks were made: what they might be called, and what they need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import translate
from typing import cast

from ..core.names import is_glob
from .placeholders import Slot, has_slots, parse
from .problems import BadValueError
from .said import Said
from .values import is_list

_WILD = re.compile(r"[*?\[]")


class Unmade:
    """The entries of a file that could not be made."""

    def __init__(self, entries: Sequence[Said]) -> None:
        self._entries = entries
        self._names = [parts for said in entries for parts in _names_of(said)]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def may_have(self, pattern: str) -> bool:
        """Whether one of their tasks might be what *pattern* means; in doubt it might."""
        return any(_may_meet(pattern, parts) for parts in self._names)

    def wants(self) -> Iterator[tuple[Said, str, str]]:
        """What they need and come after: entry, key and pattern, as far as that is the same for all their tasks."""
        for said in self._entries:
            for key in ("needs", "after"):
                value = said.all.get(key)
                if is_list(value) and not has_slots(value):
                    with suppress(BadValueError):
                        patterns = cast("tuple[str, ...]", said.context.read(key, value))
                        yield from ((said, key, pattern) for pattern in patterns)


def _names_of(said: Said) -> Iterator[tuple[str | Slot, ...]]:
    """The name with its slots; what shards add is one more."""
    name = said.all.get("name")
    if not isinstance(name, str):
        yield (Slot("name"),)
        return
    parts = parse(name)
    yield parts
    if "shards" in said.all:
        yield (*parts, Slot("shard"))


def _may_meet(pattern: str, parts: tuple[str | Slot, ...]) -> bool:
    start = parts[0] if parts and isinstance(parts[0], str) else ""
    if not is_glob(pattern):
        return bool(
            re.fullmatch("".join(".*" if isinstance(part, Slot) else re.escape(part) for part in parts), pattern)
        )
    if len(parts) == 1 and start:
        return bool(re.match(translate(pattern), start))
    fixed = _WILD.split(pattern, maxsplit=1)[0]
    return fixed.startswith(start) or start.startswith(fixed)
