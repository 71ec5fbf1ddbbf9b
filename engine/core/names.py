"""Names and globs: `needs = ["train-*"]` finds tasks by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate


def is_glob(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern means, in their order; `*` also matches `/`."""
    if not is_glob(pattern):
        return [name for name in names if name == pattern]
    matches = re.compile(translate(pattern)).match
    return [name for name in names if matches(name)]
