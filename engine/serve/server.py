"""Serves a deck to clients: who may attach, requests in, replies out. Nobody who reads slowly, sends nonsense or
vanishes holds up the engine or anybody else."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from ..adapters.state.sockets import Listener, peer_uid
from ..errors import DeckError
from ..protocol.wire import BadFrameError, Bye, Event, Hello, Reply, Request, decode_request, encode
from .pictures import Pictures, View
from .server_client import Client

_CLIENTS = 64

Handle = Callable[[Request], Awaitable[Any]]
"""Does what a request asks for and returns its result. Raises DeckError for what the caller can mend."""


class Server:
    """All clients of one engine. On the loop's thread."""

    def __init__(
        self,
        view: View,
        changed: Callable[[], set[int]],
        handle: Handle,
        hello: Hello,
        *,
        on_leave: Callable[[], None] = lambda: None,
    ) -> None:
        """*changed*: the indexes of tasks that have changed since it was asked last. *on_leave*: a client has gone."""
        self.hello = hello
        self._handle = handle
        self._on_leave = on_leave
        self._loop = asyncio.get_running_loop()
        self._clients: set[Client] = set()
        self.pictures = Pictures(view, changed, self._clients)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.AbstractServer | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, listener: Listener) -> None:
        """Accept clients on *listener*; what listened before is given up, its clients stay."""
        if self._server is not None:
            self._server.close()
        self._server = await self._loop.create_unix_server(self._client, sock=listener.socket)

    def close(self, why: str, exit_code: int = 0) -> None:
        """Tell everybody, flush what they will take without waiting, and let go."""
        self.pictures.flush()
        for client in list(self._clients):
            client.send(encode(Bye(why, exit_code)))
            client.leave()
        for task in self._tasks:
            task.cancel()
        self.pictures.close()
        if self._server is not None:
            self._server.close()

    @property
    def clients(self) -> int:
        return len(self._clients)

    @property
    def listened(self) -> bool:
        """Somebody wants events."""
        return any(client.events for client in self._clients)

    # -- clients ------------------------------------------------------------------------------------------------------

    def _client(self) -> Client:
        return Client(self, self.pictures.drained)

    def admit(self, client: Client, transport: asyncio.Transport) -> bool:
        """Only this user and root, and not without end."""
        if peer_uid(transport.get_extra_info("socket")) not in (os.geteuid(), 0):
            return False
        if len(self._clients) >= _CLIENTS:
            client.refuse(f"engine {self.hello.pid} has {_CLIENTS} clients attached, it takes no more: end one", 3)
            return False
        self._clients.add(client)
        return True

    def gone(self, client: Client) -> None:
        """Nobody reckons with it any more. Idempotent."""
        if client in self._clients:
            self._clients.discard(client)
            self._on_leave()

    def take(self, client: Client, line: bytes) -> None:
        """One line of a client's."""
        try:
            request = decode_request(line)
        except BadFrameError as error:
            client.refuse(f"not a request: {error}")
            return
        if request.op == "watch":
            client.events = bool(request.args.get("events"))
            client.send(encode(Reply(id=request.id, ok=True)))
            if request.args.get("rows", True):
                self.pictures.show(client)
            return
        task = self._loop.create_task(self._answer(client, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, client: Client, request: Request) -> None:
        try:
            reply = encode(Reply(id=request.id, ok=True, result=await self._handle(request)))
        except DeckError as error:
            reply = encode(Reply(id=request.id, ok=False, error=str(error), code=error.exit_code))
        except Exception as error:  # A request must not end the engine; whoever asked is told, the log has the rest.
            traceback.print_exception(error)
            reply = encode(Reply(id=request.id, ok=False, error=f"internal error: {error!r}", code=3))
        self.pictures.flush()  # whoever asked finds what it led to when the answer is there
        client.send(reply)

    def tell(self, event: dict[str, Any]) -> None:
        """An event for those who asked for events."""
        listening = [client for client in self._clients if client.events]
        if not listening:
            return
        line = encode(Event(event))
        for client in listening:
            if client.choked:
                client.refuse("too slow for events")
            else:
                client.send(line)
