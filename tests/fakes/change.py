"""What an engine tells, made up: pictures and changes as messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpudeck.engine.protocol.counts import Counts
from gpudeck.engine.protocol.wire import Cluster, DeckHead, Delta, GpuRow, Ready, Snapshot, TaskRow, Tasks
from gpudeck.tui.model import DeckModel, Link, News

NO_HEAD = DeckHead(deck="", file="", log_dir="", run=0, ended=False, counts=Counts(), slots=0)


@dataclass(frozen=True, slots=True)
class Change:
    """*reset*: a picture begins. *whole*: it is complete."""

    reset: bool = False
    total: int | None = None
    whole: bool = False
    rows: Mapping[int, TaskRow] = field(default_factory=dict[int, TaskRow])
    head: DeckHead | None = None
    gpus: tuple[GpuRow, ...] | None = None
    cluster: Cluster | None = None
    link: Link | None = None

    @property
    def messages(self) -> list[News]:
        rows = list(self.rows.values())
        found: list[News] = [] if self.link is None else [self.link]
        if self.reset and (self.head or self.rows or self.whole):
            head = self.head or NO_HEAD
            total = len(rows) if self.total is None else self.total
            found += [Snapshot(rev=1, total=total, head=head, gpus=self.gpus or (), cluster=self.cluster), Tasks(rows)]
        elif rows or self.head or self.gpus is not None or self.cluster:
            found.append(Delta(rev=1, rows=rows, head=self.head, gpus=self.gpus, cluster=self.cluster))
        return [*found, Ready(1)] if self.whole else found


def fold(deck: DeckModel, change: Change) -> frozenset[int] | None:
    """What a screen does with it. Returns what `show` is to be told."""
    changed: set[int] | None = set()
    for each in change.messages:
        if isinstance(each, Link):
            deck.link = each
        elif not isinstance(each, str):
            rows = deck.fold(each)
            changed = None if rows is None or changed is None else changed | rows
    return None if changed is None else frozenset(changed)
