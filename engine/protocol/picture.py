"""The deck as a client knows it: what the engine sent first, and all that it has told since."""

from __future__ import annotations

from dataclasses import dataclass, field

from .wire import Cluster, DeckHead, Delta, GpuRow, Ready, Snapshot, TaskRow, Tasks, ToClient


@dataclass(slots=True)
class Picture:
    """The deck as the engine last told it."""

    head: DeckHead
    gpus: tuple[GpuRow, ...]
    rows: dict[int, TaskRow] = field(default_factory=dict[int, TaskRow])
    """By index, in file order."""
    whole: bool = False
    cluster: Cluster | None = None
    """None: its tasks run on this box."""
    total: int = 0
    """Rows that it has once it is whole."""

    def by_name(self) -> dict[str, TaskRow]:
        return {row.name: row for row in self.rows.values()}


def folded(picture: Picture | None, message: ToClient) -> Picture | None:
    """What is known of the deck after a message of its engine."""
    match message:
        case Snapshot():
            return Picture(message.head, message.gpus, cluster=message.cluster, total=message.total)
        case Tasks(rows=rows) if picture is not None:
            picture.rows.update((row.index, row) for row in rows)
        case Ready() if picture is not None:
            picture.whole = True
        case Delta() if picture is not None:
            picture.rows.update((row.index, row) for row in message.rows)
            picture.head = message.head or picture.head
            picture.gpus = picture.gpus if message.gpus is None else message.gpus
            picture.cluster = message.cluster or picture.cluster
        case _:
            pass
    return picture
