"""An engine's side of its socket: bound, told to the lock file, kept alive, and fed with what changes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from ... import __version__
from ..adapters import host
from ..adapters.state.lock import DeckLock
from ..adapters.state.sockets import Listener, listen
from ..core.events import Fact
from ..ending import Mode
from ..errors import EngineUnavailableError
from ..protocol.jsonlines import json_lines
from ..protocol.messages import Message, RunFinished
from ..protocol.wire import PROTOCOL, Hello
from .server import Handle, Server
from .view import DeckView

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
        self._server = Server(view, view.changed, handle, hello, on_leave=on_leave)
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

    def close(self, why: str, exit_code: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server.close(why, exit_code)
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
