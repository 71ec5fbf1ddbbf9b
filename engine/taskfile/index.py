"""Finds tasks by name or glob without looking at every name for every glob."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from fnmatch import translate

from ..core.names import is_glob

_WILD = re.compile(r"[*?\[]")


class Index:
    """Positions of names, for patterns as `needs` has them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._position = {name: position for position, name in enumerate(names)}
        self._sorted: list[str] | None = None
        self._found: dict[str, list[int]] = {}

    def find(self, pattern: str) -> list[int]:
        """Positions of the names that *pattern* means, in order."""
        if pattern not in self._found:
            self._found[pattern] = self._globbed(pattern) if is_glob(pattern) else self._named(pattern)
        return self._found[pattern]

    def _named(self, name: str) -> list[int]:
        return [self._position[name]] if name in self._position else []

    def _globbed(self, pattern: str) -> list[int]:
        match = re.compile(translate(pattern)).match
        return sorted(self._position[name] for name in self._candidates(pattern) if match(name))

    def _candidates(self, pattern: str) -> Sequence[str]:
        """Names that begin as *pattern* does before its first wildcard."""
        wild = _WILD.search(pattern)
        start = pattern[: wild.start()] if wild else pattern
        if not start:
            return self._names
        if self._sorted is None:
            self._sorted = sorted(self._names)
        first = bisect_left(self._sorted, start)
        return self._sorted[first : bisect_left(self._sorted, start + "\U0010ffff", first)]
