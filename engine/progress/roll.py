"""The attempts that are followed."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.deck import Task
from ..core.spec import TaskSpec
from ..logs.files import AttemptPaths
from .followed import Followed


class Roll:
    """By the token of the attempt, and by the number that the helper knows it by."""

    def __init__(self) -> None:
        self._by_token: dict[str, Followed] = {}
        self._by_id: dict[int, Followed] = {}
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[Followed]:
        """As they are now: some may be forgotten meanwhile."""
        return iter(list(self._by_token.values()))

    def of(self, token: str) -> Followed | None:
        return self._by_token.get(token)

    def numbered(self, number: int) -> Followed | None:
        return self._by_id.get(number)

    def add(self, token: str, task: Task, spec: TaskSpec, paths: AttemptPaths, wall: float) -> Followed:
        """*wall*: its start, seconds since the epoch."""
        found = Followed(self._next_id, token, task, spec, paths, wall)
        self._next_id += 1
        self._by_token[token] = self._by_id[found.id] = found
        return found

    def forget(self, token: str) -> None:
        """One that is not there is ignored."""
        found = self._by_token.pop(token, None)
        if found is not None:
            self._by_id.pop(found.id, None)

    def ending(self) -> list[Followed]:
        """Those that have ended, whose last look is awaited."""
        return [found for found in self if found.done is not None]
