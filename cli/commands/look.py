"""A deck as a command sees it: told by its engine, or read from disk where none runs. The same rows either way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ...engine.client.connection import Connection
from ...engine.client.place import Place
from ...engine.errors import UsageError
from ...engine.logs.files import LogFolder
from ...engine.protocol.wire import Cluster, DeckHead, GpuRow, TaskRow

if TYPE_CHECKING:
    from ...engine.serve.offline import OfflineLook


def look(place: Place) -> Look:
    """What commands ask of a deck. Where no engine runs, one line on stderr says so."""
    connection = place.attach()
    if connection is not None:
        return LiveLook(connection)
    from ...engine.serve.offline import offline_look  # which brings half the engine with it

    return offline_look(place)


def nobody(selectors: Sequence[str]) -> str:
    """What to say where selectors mean no task now."""
    return f"no task is {' and '.join(selectors)} now"


def some_rows(found: Look, selectors: Sequence[str]) -> list[TaskRow]:
    """Raises UsageError where they mean none."""
    if rows := found.rows(selectors):
        return rows
    raise UsageError(nobody(selectors))


class LiveLook:
    """Asks the engine."""

    submitted = ""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        hello = connection.hello
        self.engine: Mapping[str, Any] | None = {
            "pid": hello.pid, "version": hello.version, "host": hello.host, "mode": hello.mode,
        }  # fmt: skip

    def head(self) -> DeckHead:
        """Of the moment of `gpus` and of all rows, as long as nothing else was asked."""
        return self.connection.wait_for_picture().head

    def gpus(self) -> Sequence[GpuRow]:
        return self.connection.wait_for_picture().gpus

    def cluster(self) -> Cluster | None:
        return msgspec.convert(self.connection.request("cluster"), Cluster | None)

    def rows(self, selectors: Sequence[str]) -> list[TaskRow]:
        if not selectors:
            return list(self.connection.wait_for_picture().rows.values())
        return self.connection.rows(self.connection.request("select", select=list(selectors)))

    def with_metrics(self, rows: Sequence[TaskRow]) -> list[TaskRow]:
        return list(rows)

    def hints(self, rows: Sequence[TaskRow]) -> Mapping[str, str]:
        names = {row.name for row in rows}
        told = self.connection.request("errors")["failures"] if names else ()
        return {
            failure["task"]: failure["hint"] for failure in told if failure.get("hint") and failure["task"] in names
        }

    def explain(self, name: str) -> list[str]:
        return [obstacle["text"] for obstacle in self._obstacles(name)]

    def blockers(self, name: str) -> list[str]:
        """Tasks that keep it from starting: some, where they are many."""
        return list(dict.fromkeys(task for obstacle in self._obstacles(name) for task in obstacle.get("tasks", ())))

    def _obstacles(self, name: str) -> list[dict[str, Any]]:
        return self.connection.request("explain", tasks=[name]).get(name, [])  # it may be gone just now

    def details(self, name: str) -> dict[str, Any]:
        return self.connection.request("show", tasks=[name])[0]

    def logs(self) -> LogFolder:
        head = self.head()
        return LogFolder(head.log_dir, (row.name for row in self.rows(())), head.former_log_dirs)


Look: TypeAlias = "LiveLook | OfflineLook"
"""Either answers the same questions."""
