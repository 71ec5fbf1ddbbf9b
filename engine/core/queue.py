"""The queue: tasks that wait for slots, in buckets of equal shape; a shape that does not fit is passed over whole."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import log2
from typing import NamedTuple

from .spec import Resources

LOOK_AT = 64
"""Shapes that one plan tries to place on GPUs."""
_MANY = 64
"""So many places given up in a row are more than what started meanwhile."""


class Shape(NamedTuple):
    """Tasks of one shape fit or wait together."""

    resources: Resources
    avoid: frozenset[str]
    """GPUs that the task failed on: another one is preferred."""
    length: int
    """Length class: log2 of the expected seconds; -1: unknown, or of a large entry."""
    entry: str
    """Only where the entry itself is a limit (max_parallel), decides the memory ("auto") or is large; else empty."""
    not_on: tuple[str, ...] = ()
    """GPUs that a retry by hand leaves out."""
    outputs: tuple[str, ...] = ()
    """Only where another task, or an attempt, has one of them, too: it waits for that one."""


def length_class(expected_s: float | None) -> int:
    return -1 if expected_s is None else int(log2(max(expected_s, 1.0)))


class Key(NamedTuple):
    """Order of the queue: the smallest first."""

    priority: int
    """Negated effective priority."""
    length: float
    """Negated expected seconds with order = "longest", else 0."""
    position: int
    """Place in the file."""


class QueueEntry(NamedTuple):
    """A queued task's place; `version` tells a place that was given up."""

    key: Key
    task: int
    version: int


class Queue:
    """Heaps by shape with lazy deletion: a place counts only while its version is the task's."""

    __slots__ = ("_buckets", "_versions", "count")

    def __init__(self) -> None:
        self._buckets: dict[Shape, list[QueueEntry]] = {}
        self._versions: dict[int, int] = {}
        self.count = 0

    def __contains__(self, index: int) -> bool:
        return self._versions.get(index, 0) > 0

    def put(self, index: int, shape: Shape, key: Key) -> None:
        """Add a task, or move it to another place."""
        version = self._versions.get(index, 0)
        if version <= 0:
            self.count += 1
        version = abs(version) + 1
        self._versions[index] = version
        heappush(self._buckets.setdefault(shape, []), QueueEntry(key, index, version))

    def drop(self, index: int) -> None:
        """Take a task out. One that is not in is not an error."""
        version = self._versions.get(index, 0)
        if version > 0:
            self._versions[index] = -version
            self.count -= 1

    def _head(self, bucket: list[QueueEntry]) -> QueueEntry | None:
        given_up = 0
        while bucket:
            place = bucket[0]
            if self._versions.get(place.task) == place.version:
                return place
            heappop(bucket)
            given_up += 1
            if given_up == _MANY:  # a whole entry has moved: one look at all is quicker than as many steps to the front
                bucket[:] = [place for place in bucket if self._versions.get(place.task) == place.version]
                heapify(bucket)
        return None

    def heads(self, *, without_gpus: bool = False) -> Iterator[tuple[QueueEntry, Shape]]:
        """The first task of each shape, in order. The queue may not change while this is read.

        *without_gpus*: only of shapes that need no GPU.
        """
        found: list[tuple[QueueEntry, Shape]] = []
        empty: list[Shape] = []
        for shape, bucket in self._buckets.items():
            if without_gpus and shape.resources.gpus != 0:
                continue
            head = self._head(bucket)
            if head is None:
                empty.append(shape)
            else:
                found.append((head, shape))
        for shape in empty:
            del self._buckets[shape]
        heapify(found)
        while found:
            yield heappop(found)

    def size(self, shape: Shape) -> int:
        """About how many tasks of a shape are queued; places that were given up count until they come to the front."""
        return len(self._buckets.get(shape, ()))

    def __iter__(self) -> Iterator[int]:
        """All queued tasks, in no order."""
        return (index for index, version in self._versions.items() if version > 0)
