"""What the screen knows of a deck. The engine holds the truth; this is its latest word, folded on the UI's thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..engine.protocol.wire import Cluster, DeckHead, GpuRow, TaskRow

LinkKind = Literal["connecting", "live", "silent", "restarting", "over", "failed", "files"]


@dataclass(frozen=True, slots=True)
class Link:
    """How the screen stands with the engine."""

    kind: LinkKind
    """connecting: none has answered yet; silent: it is there and does not answer; restarting: it vanished, the next one
    is being started; over: it said goodbye; failed: it cannot be reached or started, `text` says why; files: no engine
    is asked, the deck's files tell."""
    text: str = ""
    pid: int = 0
    version: str = ""
    host: str = ""
    silent_s: float = 0.0
    """For how long a question has not been answered."""
    read_only: bool = False
    """Nothing is changed from here, whether there is an engine or not."""
    as_of: float = 0.0
    """When the newest of what files tell was written, seconds since the epoch; 0: nothing ever was."""

    @property
    def live(self) -> bool:
        return self.kind == "live"


@dataclass(slots=True)
class Change:
    """What has come from the engine since the screen last looked, folded together."""

    reset: bool = False
    """A new picture: rows that are not in `rows` are gone."""
    total: int | None = None
    whole: bool | None = None
    rows: dict[int, TaskRow] = field(default_factory=dict[int, TaskRow])
    head: DeckHead | None = None
    gpus: tuple[GpuRow, ...] | None = None
    cluster: Cluster | None = None
    link: Link | None = None
    said: list[str] = field(default_factory=list[str])
    """Lines that a command would have printed beside its output."""


class DeckModel:
    """Rows by index, the GPUs and the head as last told. Only `fold` changes it."""

    def __init__(self) -> None:
        self.rows: dict[int, TaskRow] = {}
        """In file order once the picture is whole."""
        self.index_of: dict[str, int] = {}
        self.head: DeckHead | None = None
        self.gpus: tuple[GpuRow, ...] = ()
        self.cluster: Cluster | None = None
        """Where a Slurm deck's tasks run; None: nothing is known of it."""
        self.link = Link("connecting")
        self.total = 0
        self.whole = False
        """All rows of the picture have come."""

    @property
    def on_slurm(self) -> bool:
        """Its tasks run on a cluster, so that it has no GPUs of its own."""
        return self.head is not None and self.head.backend == "slurm"

    def row(self, name: str) -> TaskRow | None:
        index = self.index_of.get(name)
        return None if index is None else self.rows.get(index)

    def rows_of(self, names: Iterable[str]) -> list[TaskRow]:
        """Of those that are there."""
        return [row for name in names if (row := self.row(name)) is not None]

    def fold(self, change: Change) -> frozenset[int] | None:
        """Take in a change. Returns the indexes of rows that differ; None: all may."""
        self.link = change.link or self.link
        self.head = change.head or self.head
        if change.gpus is not None:
            self.gpus = change.gpus
        self.cluster = change.cluster or self.cluster
        if change.total is not None:
            self.total = change.total
        if change.whole is not None:
            self.whole = change.whole
        if change.reset:
            self.rows, self.index_of = {}, {}
        self._take(change.rows)
        return None if change.reset else frozenset(change.rows)

    def _take(self, rows: Mapping[int, TaskRow]) -> None:
        last = next(reversed(self.rows), -1)
        unordered = False
        for index, row in rows.items():
            old = self.rows.get(index)
            if old is not None and old.name != row.name:
                self.index_of.pop(old.name, None)
            unordered = unordered or (old is None and index < last)
            if old is None:
                last = max(last, index)
            self.rows[index] = row
            self.index_of[row.name] = index
        if unordered:
            self.rows = dict(sorted(self.rows.items()))
