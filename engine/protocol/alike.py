"""Failures of a deck, alike ones together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .pages import Failure

_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[^\s:'\",]+)+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
"""What differs between failures that are alike: addresses, paths, numbers."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Failures of one kind that say the same, the newest first."""

    gist: str
    """What their reasons have in common, "#" for what differs."""
    failures: tuple[Failure, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What tells one group from another."""
        return self.newest.kind, self.gist

    @property
    def newest(self) -> Failure:
        return self.failures[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(failure.task for failure in self.failures)


def _key(failure: Failure) -> tuple[str, str]:
    """What failures that are alike have in common."""
    return failure.kind, _VARYING.sub("#", failure.reason)


def groups_of(failures: Iterable[Failure]) -> list[Alike]:
    """The largest first, then the newest."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        found.setdefault(_key(failure), []).append(failure)
    groups = [
        Alike(gist, tuple(sorted(alike, key=lambda failure: -failure.ended))) for (_, gist), alike in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.failures), -group.newest.ended))
