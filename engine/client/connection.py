"""A client's side of the socket: asks an engine, follows what it tells. Blocking; for commands. The screen has its own
loop and takes a connection over, with what is pure of it: `Inbox`, `result_of`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..adapters.processes.proc import stat
from ..adapters.state.lock import Holder
from ..errors import EngineEndingError, EngineUnavailableError, UsageError
from ..protocol.picture import Picture, folded
from ..protocol.rows import DeckHead, TaskRow
from ..protocol.wire import PORTION, BadFrameError, Bye, Hello, Reply, Request, ToClient, decode, encode

HELLO_S = 2.0
"""An engine that does not greet within this time is frozen or stuck."""
_DRAIN_S = 0.001


class Gone(EngineUnavailableError):  # noqa: N818
    """The engine has ended, or the connection has."""

    gone = True
    goodbye = False
    """It said so: it was not killed."""


class SaidGoodbye(Gone):
    goodbye = True


class Inbox:
    """Bytes of an engine as messages. Pure."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, data: bytes) -> None:
        """What has been read; nothing is the end of the connection, which raises Gone."""
        if not data:
            raise Gone("the engine has ended")
        self._bytes += data

    def next(self) -> ToClient | None:
        """The next message that this version knows; None: none has come whole. Raises EngineUnavailableError for what
        is none."""
        while (end := self._bytes.find(b"\n")) >= 0:
            line = bytes(self._bytes[:end])
            del self._bytes[: end + 1]
            try:
                message = decode(line)
            except BadFrameError as error:
                raise EngineUnavailableError(f"the engine sent what is no message: {error}") from error
            if message is not None:
                return message
        return None


def result_of(reply: Reply) -> Any:
    """What was asked for. Raises UsageError (2) or EngineUnavailableError (3) with the engine's words."""
    if reply.ok:
        return reply.result
    if reply.code == EngineEndingError.exit_code:
        raise Gone(reply.error)
    raise UsageError(reply.error) if reply.code == 2 else EngineUnavailableError(reply.error)


_ACTS = frozenset((
    "retry", "cancel", "kill", "hold", "release", "accept", "priority", "pause", "unpause", "undo",
))  # fmt: skip
"""What is noted with who asked: "user", or what GPUDECK_BY says."""


class Connection:
    """One connection to an engine. Not for several threads."""

    def __init__(self, connection: socket.socket, holder: Holder | None = None) -> None:
        """Waits for the greeting. Raises EngineUnavailableError when none comes; the socket is closed then."""
        self.socket = connection
        self.inbox = Inbox()
        self.kept: list[ToClient] = []
        """Messages that came while an answer was waited for."""
        self._last_id = 0
        self.picture: Picture | None = None
        try:
            self.hello = self._greeting(holder)
        except BaseException:
            connection.close()
            raise

    def _greeting(self, holder: Holder | None) -> Hello:
        deadline = time.monotonic() + HELLO_S
        try:
            while time.monotonic() < deadline:
                message = self._read(max(0.01, deadline - time.monotonic()))
                if isinstance(message, Hello):
                    return message
                if isinstance(message, Reply):  # it takes no more clients
                    result_of(message)
        except TimeoutError:
            pass
        raise EngineUnavailableError(silent(holder))

    def request(self, op: str, /, **args: Any) -> Any:
        """Ask and wait for the answer. Raises UsageError (2) or EngineUnavailableError (3) with the engine's words."""
        self._last_id += 1
        if op in _ACTS and (by := os.environ.get("GPUDECK_BY")):
            args = {"by": by, **args}
        self._send(Request(id=self._last_id, op=op, args=args))
        while True:
            message = self._read(None)
            if isinstance(message, Reply) and message.id in (self._last_id, 0):
                return result_of(message)
            self.kept.append(message)

    def watch(self, *, rows: bool = True, events: bool = False) -> None:
        """From now on `messages` yields pictures and changes, and with *events* what happens."""
        self.request("watch", rows=rows, events=events)

    def head(self) -> DeckHead:
        """How the deck stands now."""
        return msgspec.convert(self.request("status")["head"], DeckHead)

    def rows(self, names: Sequence[str]) -> list[TaskRow]:
        """How these tasks stand now, asked for in portions."""
        found: list[TaskRow] = []
        for start in range(0, len(names), PORTION):
            answer = self.request("rows", tasks=list(names[start : start + PORTION]))
            found += msgspec.convert(answer, list[TaskRow])
        return found

    def messages(self, timeout_s: float | None = None) -> Iterator[ToClient]:
        """What the engine tells, in order, folded into `picture`. Ends when nothing comes for *timeout_s*; raises Gone
        when the engine ends (after its `bye`)."""
        while True:
            try:
                message = self.kept.pop(0) if self.kept else self._read(timeout_s)
            except TimeoutError:
                return
            self.picture = folded(self.picture, message)
            yield message
            if isinstance(message, Bye):
                raise SaidGoodbye(f"the engine has ended: {message.why}")

    def drain(self) -> None:
        """Fold what has come into `picture`, without waiting for more. Raises Gone."""
        for _ in self.messages(_DRAIN_S):
            pass

    def wait_for_picture(self) -> Picture:
        """Watch until the deck is known as a whole, as it stands after the last answer to a request."""
        if self.picture is None:
            self.watch()
        while self.picture is None or not self.picture.whole or self.kept:
            next(self.messages(), None)
        return self.picture

    def fileno(self) -> int:
        """For select and poll."""
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, request: Request) -> None:
        try:
            self.socket.sendall(encode(request))
        except OSError as error:
            raise Gone("the engine has ended") from error

    def _read(self, timeout_s: float | None) -> ToClient:
        """The next message. Raises TimeoutError and Gone."""
        while (message := self.inbox.next()) is None:
            self.socket.settimeout(timeout_s)
            try:
                data = self.socket.recv(1 << 18)
            except TimeoutError:
                raise
            except OSError as error:
                raise Gone("the connection to the engine broke") from error
            self.inbox.take(data)
        return message


def silent(holder: Holder | None) -> str:
    """What to say of an engine that does not answer."""
    if holder is None or not holder.pid:
        return "the engine that holds the deck's lock does not answer"
    return silent_engine(holder.pid)


def silent_engine(pid: int) -> str:
    """The same of one that is known."""
    process = stat(pid)
    state = process.state if process is not None else "gone"
    if state in ("t", "T"):  # what helps first: a narrow screen cuts the end
        return f"engine {pid} is stopped, `kill -CONT {pid}` lets it go on: it holds the deck's lock (state {state})"
    return f"engine {pid} holds the deck's lock and does not answer (state {state})"
