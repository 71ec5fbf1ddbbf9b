"""What engine and clients say to each other over the deck's socket: one JSON object a line, UTF-8.

The engine greets with `hello`. A client sends requests, each with an id of its own; each gets one `reply`. After the
request `watch` the engine sends a picture of the deck (`snapshot`, then `tasks` in portions, then `ready`) and from
then on a `delta` for what changed. A client that reads too slowly gets a new picture instead of what it missed.

Within a version fields are added, never renamed or removed; unknown ones are to be ignored. `hello`, `status` and
`stop` stay as they are in all versions. docs/dev/protocol.md tells every field.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .rows import Cluster as Cluster
from .rows import ClusterRow as ClusterRow
from .rows import DeckHead as DeckHead
from .rows import GpuMemory as GpuMemory
from .rows import GpuProcess as GpuProcess
from .rows import GpuRow as GpuRow
from .rows import State as State
from .rows import TaskRow as TaskRow

PROTOCOL = 1
REQUEST_LIMIT = 8 << 20
"""Bytes of a request's line: the names of 100,000 tasks. Longer ones end the connection."""
PORTION = 500
"""Rows in one `tasks` or `delta` line at most."""


class Hello(msgspec.Struct, frozen=True, tag="hello", kw_only=True):
    """The engine's first line."""

    protocol: int
    version: str
    pid: int
    host: str
    deck: str
    file: str
    mode: Literal["headless", "detached", "service"] = "detached"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for."""

    id: int
    op: str
    args: dict[str, Any] = {}


READS = frozenset({"show", "timeline", "graph", "errors"})
"""Requests that change nothing and that a deck's files can answer, too."""


class Reply(msgspec.Struct, frozen=True, tag="reply", kw_only=True):
    id: int
    ok: bool
    result: Any = None
    error: str = ""
    """One line: what, where, what to do."""
    code: int = 0
    """The exit code that a command ends with: 2 the caller's mistake, 3 the engine cannot. 75: it was just ending, the
    next engine can."""


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", kw_only=True):
    """A picture begins: forget all rows. `total` of them follow in `tasks` lines."""

    rev: int
    total: int
    head: DeckHead
    gpus: tuple[GpuRow, ...]
    cluster: Cluster | None = None
    """None: its tasks run on this box."""


class Tasks(msgspec.Struct, frozen=True, tag="tasks"):
    rows: list[TaskRow]


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The picture is whole."""

    rev: int


class Delta(msgspec.Struct, frozen=True, tag="delta", omit_defaults=True, kw_only=True):
    """What changed: rows in the place of those with the same index."""

    rev: int
    rows: list[TaskRow] = []
    head: DeckHead | None = None
    gpus: tuple[GpuRow, ...] | None = None
    cluster: Cluster | None = None


class Event(msgspec.Struct, frozen=True, tag="event"):
    """What `--json` would print, for clients that asked for events."""

    event: dict[str, Any]


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """The engine ends."""

    why: str
    exit_code: int = 0


ToClient = Hello | Reply | Snapshot | Tasks | Ready | Delta | Event | Bye

_encoder = msgspec.json.Encoder()
_to_client = msgspec.json.Decoder(ToClient)
_request = msgspec.json.Decoder(Request)


class BadFrameError(ValueError):
    """A line that is no message of this protocol. The text says why."""


def encode(message: ToClient | Request) -> bytes:
    """A message as a line."""
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:  # file names and output need not be UTF-8
        return msgspec.json.encode(_printable(msgspec.to_builtins(message))) + b"\n"


def decode_request(line: bytes) -> Request:
    """Raises BadFrameError."""
    try:
        return _request.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrameError(str(error)) from error


def decode(line: bytes) -> ToClient | None:
    """A line of the engine's; None for a kind that this version does not know. Raises BadFrameError."""
    try:
        return _to_client.decode(line)
    except msgspec.ValidationError as error:
        if "Invalid value" in str(error) and "type" in str(error):
            return None
        raise BadFrameError(str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFrameError(str(error)) from error


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
