"""Names of rows, made when asked for: a table of 100,000 does not copy them at each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from ....engine.protocol.wire import TaskRow


class Names(Sequence[str]):
    """Good until the table changes."""

    def __init__(self, indexes: Sequence[int], rows: Mapping[int, TaskRow]) -> None:
        self._indexes, self._rows = indexes, rows

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self._rows[index].name for index in self._indexes[at]]
        return self._rows[self._indexes[at]].name
