"""Serves a deck to clients: who may attach, requests in, replies out. Nobody who reads slowly, sends nonsense or
vanishes holds up the engine or anybody else."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ... import __version__
from ..adapters import host
from ..adapters.state.lock import DeckLock
from ..adapters.state.sockets import Listener, listen, peer_uid
from ..core.events import Fact
from ..ending import Mode
from ..errors import DeckError, EngineUnavailableError
from ..protocol.jsonlines import json_lines
from ..protocol.messages import Message, RunFinished
from ..protocol.wire import (
    PROTOCOL,
    BadFrameError,
    Bye,
    Event,
    Hello,
    Reply,
    Request,
    decode_request,
    encode,
)
from .pictures import Pictures
from .server_client import Client
from .view import DeckView

_CLIENTS = 64
_TURNS_TO_CONNECT = 4
"""Of the asyncio loop, from the call of accept to `connection_made`; more than it takes."""

Handle = Callable[[Request], Awaitable[Any]]
"""Does what a request asks for and returns its result. Raises DeckError for what the caller can mend."""


class Server:
    """All clients of one engine. On the loop's thread."""

    def __init__(
        self,
        view: DeckView,
        handle: Handle,
        hello: Hello,
        *,
        on_leave: Callable[[], None],
    ) -> None:
        """*on_leave*: a client has gone."""
        self.hello = hello
        self._handle = handle
        self._on_leave = on_leave
        self._loop = asyncio.get_running_loop()
        self._clients: set[Client] = set()
        self.pictures = Pictures(view, self._clients)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.AbstractServer | None = None
        self._door: Listener | None = None
        self._closed = False

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, listener: Listener) -> None:
        """Accept clients on *listener*; what listened before is given up, its clients stay."""
        if self._server is not None:
            self._server.close()
        self._server = await self._loop.create_unix_server(
            lambda: Client(self, self.pictures.drained), sock=listener.socket
        )
        self._door = listener

    async def close(self, why: str, exit_code: int = 0) -> None:
        """Tell everybody, flush what they will take without waiting, and let go. Idempotent.

        Who is at the door is not greeted: a client looks for the next engine then. asyncio would leave a connection
        open that it has accepted and that comes after the end.
        """
        self._closed = True
        door, self._door = self._door, None
        if door is not None:
            self._loop.remove_reader(door.socket)
            for _ in range(_TURNS_TO_CONNECT):
                await asyncio.sleep(0)
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

    def admit(self, client: Client, transport: asyncio.Transport) -> bool:
        """Only this user and root, not without end, and not at the end."""
        if self._closed:
            return False
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


_LOOK_EVERY_S = 5.0


class Serving:
    """Made and closed with the engine. Where no socket can be had the engine works without, and says so once."""

    def __init__(
        self,
        state_dir: str,
        lock: DeckLock,
        view: DeckView,
        handle: Handle,
        *,
        deck: str,
        file: str,
        mode: Mode,
        note: Callable[[str], None],
        on_leave: Callable[[], None],
    ) -> None:
        self._state_dir = state_dir
        self._lock = lock
        self._view = view
        self._note = note
        self._asyncio = asyncio.get_running_loop()
        hello = Hello(
            protocol=PROTOCOL,
            version=__version__,
            pid=lock.holder.pid,
            host=host.hostname(),
            deck=deck,
            file=file,
            mode=mode,
        )
        self._server = Server(view, handle, hello, on_leave=on_leave)
        self._listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._said = ""
        self._binding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and tell where."""
        await self._bind()
        self._look_later()

    @property
    def clients(self) -> int:
        return self._server.clients

    def publish(self, facts: Sequence[Fact]) -> None:
        """Facts have been written."""
        self._view.note(facts)
        self._server.pictures.touch()

    def turned(self) -> None:
        """A turn of the loop is over: phases may have changed without a fact."""
        self._server.pictures.touch()

    def renew(self) -> None:
        """The deck is another: clients get a picture of it from the beginning."""
        self._server.pictures.renew()

    def sampled(self) -> None:
        """There are new readings of the GPUs."""
        self._server.pictures.touch(gpus=True)

    def show(self, message: Message) -> None:
        """An event, for clients that asked for them."""
        if not self._server.listened:
            return
        if isinstance(message, RunFinished):
            message = dataclasses.replace(message, rows=())
        for line in json_lines(message):
            event: dict[str, Any] = json.loads(line)
            self._server.tell(event)

    def cannot_accept(self, error: OSError) -> None:
        """A client is at the door and no descriptor is left for it; asyncio tries again each second."""
        self._say(error.strerror or str(error))

    async def close(self, why: str, exit_code: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._server.close(why, exit_code)
        if self._listener is not None:
            self._listener.close()

    async def _bind(self) -> None:
        old = self._listener
        try:
            listener = listen(self._state_dir)
        except EngineUnavailableError as error:
            self._say(str(error))
            return
        try:
            await self._server.start(listener)
            self._lock.write(address=listener.address)
        except OSError as error:  # it is tried again
            listener.close()
            self._say(error.strerror or str(error))
            return
        self._listener = listener
        if old is not None:
            old.close()

    def _say(self, why: str) -> None:
        if why != self._said:
            self._said = why
            self._note(f"no client can attach: {why}")

    def _look_later(self) -> None:
        self._timer = self._asyncio.call_later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """Cleaners of /tmp remove sockets, which nobody is told of."""
        self._look_later()
        if self._listener is None or not self._listener.still_there():
            self._binding = self._asyncio.create_task(self._bind())
