"""A search under way: what its process says, and the hits as they come in."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Literal

import msgspec

from ..background import lines_from
from .finder import Direction
from .query import Query


class Told(msgspec.Struct, frozen=True):
    """What the search process has said since it last spoke."""

    after: list[int] = []
    before: list[int] = []
    """Last line first."""
    reached: dict[Direction, tuple[int, bool, bool]] = {}
    """How far, whether that is over, whether it stopped because there were too many."""
    problem: str = ""
    ended: bool = False
    """The process is gone; nothing more will come."""


class Hits:
    """Empty at first. On the screen's thread."""

    def __init__(self, origin: int) -> None:
        self._offsets = array("Q")
        """Ascending."""
        self.low = self.high = origin
        """Searched from here to there."""
        self.over: dict[Direction, bool] = {"after": False, "before": False}
        self.full: dict[Direction, bool] = {"after": False, "before": False}
        self.problem = ""
        self.running = True

    def take(self, told: Told) -> None:
        last = self._offsets[-1] if self._offsets else -1
        self._offsets.extend(offset for offset in told.after if offset > last)
        self._offsets = array("Q", reversed(told.before)) + self._offsets
        for direction, (reached, over, full) in told.reached.items():
            self.over[direction], self.full[direction] = over, full
            if direction == "after":
                self.high = max(self.high, reached)
            else:
                self.low = min(self.low, reached)
        self.problem = told.problem or self.problem
        self.running = not told.ended

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, offset: int) -> bool:
        return self._at(bisect_left(self._offsets, offset)) == offset

    def next(self, offset: int) -> int | None:
        """The first hit after *offset* among those known."""
        return self._at(bisect_right(self._offsets, offset))

    def previous(self, offset: int) -> int | None:
        """The last hit before *offset* among those known."""
        return self._at(bisect_left(self._offsets, offset) - 1)

    @property
    def first(self) -> int | None:
        return self._at(0)

    @property
    def last(self) -> int | None:
        return self._at(len(self) - 1)

    def _at(self, number: int) -> int | None:
        return self._offsets[number] if 0 <= number < len(self._offsets) else None

    @property
    def whole(self) -> bool:
        """All of the file has been searched."""
        return all(self.over[way] and not self.full[way] for way in ("after", "before"))

    def number(self, offset: int) -> int | None:
        """Which hit that is, from 1; None where it cannot be told yet."""
        if not self.over["before"] or self.full["before"] or offset not in self:
            return None
        return bisect_left(self._offsets, offset) + 1


Way = Literal["both", "after", "before"]


async def search(path: str, query: Query, origin: int, way: Way = "both") -> AsyncGenerator[Told, None]:
    """What the search process says, last with `ended`. *origin*: where a line begins, bytes."""
    order = json.dumps({"path": path, "query": asdict(query), "origin": origin, "direction": way})
    problem = ""
    try:
        async for line in lines_from("logs.finder", order):
            told = msgspec.json.decode(line, type=Told)
            problem = told.problem or problem
            yield told
    except ChildProcessError:
        problem = problem or "it takes too long: another expression may help"
    except OSError as error:
        problem = error.strerror or str(error)
    yield Told(problem=problem, ended=True)
