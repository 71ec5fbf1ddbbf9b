"""What the screen knows of a deck. The engine holds the truth; this is its latest word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..engine.protocol.picture import Picture, folded
from ..engine.protocol.wire import Cluster, DeckHead, Delta, GpuRow, TaskRow, Tasks, ToClient

NO_ENGINE = "no engine runs: ctrl+r starts one"

LinkKind = Literal["connecting", "live", "silent", "restarting", "over", "failed", "files"]


@dataclass(frozen=True, slots=True)
class Link:
    """How the screen stands with the engine."""

    kind: LinkKind
    """connecting: none has answered yet; silent: it is there and does not answer; restarting: it vanished, the next one
    is being started; over: it said goodbye; failed: it cannot be reached or started; files: this screen starts none.
    `text` says why, a line each; of the last three the deck's files tell what is shown."""
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

    @property
    def without_engine(self) -> bool:
        """Nobody does what is asked for, and none is being started."""
        return self.kind in ("over", "failed", "files")


News = Link | ToClient | str
"""How the screen stands with the engine, what that tells, and lines for the user."""


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
        self._picture: Picture | None = None

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

    def fold(self, message: ToClient) -> frozenset[int] | None:
        """Take in what the engine tells. Returns the indexes of rows that differ; None: all may. A picture that takes
        the place of another one is seen once it is whole."""
        self._picture = found = folded(self._picture, message)
        if found is None or (self.whole and not found.whole):
            return frozenset()
        other = found.rows is not self.rows
        self.rows, self.head, self.gpus, self.cluster = found.rows, found.head, found.gpus, found.cluster
        self.total, self.whole = found.total, found.whole
        if other:
            self.index_of = {}
        rows = found.rows.values() if other else message.rows if isinstance(message, Tasks | Delta) else ()
        self.index_of.update((row.name, row.index) for row in rows)
        return None if other else frozenset(row.index for row in rows)
