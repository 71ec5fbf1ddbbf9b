"""What watching clients see of a deck: a whole picture, in portions, and then what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

from ..protocol.wire import PORTION, Cluster, DeckHead, Delta, GpuRow, Ready, Snapshot, Tasks, encode
from .server_client import Client
from .view import DeckView

_LOOK_EVERY_S = 1.0


class Pictures:
    """Of one server. On the loop's thread."""

    def __init__(self, view: DeckView, clients: Collection[Client]) -> None:
        """*clients*: all that are there."""
        self._view = view
        self._clients = clients
        self._loop = asyncio.get_running_loop()
        self._rev = 0
        self._head: DeckHead | None = None
        self._gpus: tuple[GpuRow, ...] | None = None
        self._cluster: Cluster | None = None
        self._gpus_due = True
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # -- whole pictures -----------------------------------------------------------------------------------------------

    def show(self, client: Client) -> None:
        """Send it a picture, and from then on what changes."""
        client.watching, client.missed = True, False
        client.since = set()
        client.pump = self._picture()
        self._pump(client)

    def drained(self, client: Client) -> None:
        """A client has read what it was sent."""
        if client.pump is not None:
            self._loop.call_soon(self._pump, client)
        elif client.missed and client.watching:
            self.show(client)

    def _picture(self) -> Iterator[bytes]:
        """In portions, so that a large deck holds up nothing else."""
        total = self._view.total
        head, gpus, cluster = self._view.head(anew=True), self._view.gpus(), self._view.cluster()
        yield encode(Snapshot(rev=self._rev, total=total, head=head, gpus=gpus, cluster=cluster))
        for start in range(0, total, PORTION):
            yield encode(Tasks(self._view.rows(list(range(start, min(total, start + PORTION))))))

    def _pump(self, client: Client) -> None:
        if client.pump is None or client.choked:
            return
        line = next(client.pump, None)
        if line is not None:
            client.send(line)
            self._loop.call_soon(self._pump, client)
            return
        self.flush()  # what has changed until now is among `since`
        client.pump = None
        if client.since:
            client.send(encode(Delta(rev=self._rev, head=self._view.head(anew=True), gpus=self._view.gpus())))
        for rows in _portions(sorted(client.since)):
            client.send(encode(Delta(rev=self._rev, rows=self._view.rows(rows))))
        client.since = set()
        client.send(encode(Ready(self._rev)))
        # Its head and GPUs are those of when the picture was begun, not what the others were told last.
        self._head, self._gpus, self._cluster, self._gpus_due = None, None, None, True
        if client.missed:
            self.show(client)

    # -- changes ------------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Tasks are no longer at their places: whoever watches gets a whole new picture."""
        self._view.changed()
        for client in self._clients:
            if client.watching and client.choked:
                client.missed = True
                client.pump = None
            elif client.watching:
                self.show(client)

    def touch(self, *, gpus: bool = False) -> None:
        """Something may have changed: clients are told in this turn of the loop."""
        self._gpus_due |= gpus
        if not self._flushing and self._clients:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Tell clients now."""
        self._flushing = False
        indexes = self._view.changed()
        watching = [client for client in self._clients if client.watching]
        if not watching:
            return
        ready: list[Client] = []
        for client in watching:
            if client.pump is not None:
                client.since |= indexes
            elif client.choked:
                client.missed = True
            else:
                ready.append(client)
        lines = list(self._deltas(indexes)) if ready else []
        for client in ready:
            for line in lines:
                client.send(line)
        self._again_later()

    def _deltas(self, indexes: set[int]) -> Iterator[bytes]:
        head = self._view.head()
        gpus = self._view.gpus() if self._gpus_due or indexes else self._gpus
        cluster = self._view.cluster()
        self._gpus_due = False
        new_head = head if head != self._head else None
        new_gpus = gpus if gpus != self._gpus else None
        new_cluster = cluster if cluster != self._cluster else None
        if not indexes and new_head is None and new_gpus is None and new_cluster is None:
            return
        self._rev += 1
        self._head, self._gpus, self._cluster = head, gpus, cluster
        first, *rest = list(_portions(sorted(indexes))) or [[]]
        rows = self._view.rows(first)
        yield encode(Delta(rev=self._rev, rows=rows, head=new_head, gpus=new_gpus, cluster=new_cluster))
        for rows in rest:
            yield encode(Delta(rev=self._rev, rows=self._view.rows(rows)))

    def _again_later(self) -> None:
        """Estimates, and whether the GPUs still answer, change with time alone."""
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_EVERY_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if any(client.watching for client in self._clients):
            self.touch(gpus=True)


def _portions(indexes: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(indexes), PORTION):
        yield list(indexes[start : start + PORTION])
