"""An engine in its last moments: it has the deck, greets, and goes away when it is asked for something."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from gpudeck import __version__
from gpudeck.engine.adapters.state.lock import DeckLock
from gpudeck.engine.adapters.state.sockets import listen
from gpudeck.engine.protocol.wire import PROTOCOL, Hello, Reply, Request, decode_request, encode


class EndingEngine:
    """Serves one client. *last*: what it answers before it goes; None: it hangs up."""

    def __init__(self, state_dir: Path, last: Reply | None = None) -> None:
        self.asked: list[str] = []
        self._last = last
        self._lock = DeckLock.acquire(str(state_dir))
        self._listener = listen(str(state_dir), folder=f"{state_dir}.sockets")
        self._listener.socket.setblocking(True)
        self._lock.write(address=self._listener.address)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def ended(self, patience_s: float = 30.0) -> bool:
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        client, _ = self._listener.socket.accept()
        with client:
            hello = Hello(protocol=PROTOCOL, version=__version__, pid=1, host="h", deck="d", file="/f")
            client.sendall(encode(hello))
            while (request := _next(client)).op == "options":
                client.sendall(encode(Reply(id=request.id, ok=True, result={"options": ""})))
            self.asked.append(request.op)
            self._listener.close()
            self._lock.release()
            if self._last is not None:
                client.sendall(encode(Reply(id=request.id, ok=False, error=self._last.error, code=self._last.code)))


def _next(client: socket.socket) -> Request:
    line = bytearray()
    while not line.endswith(b"\n"):
        data = client.recv(1)
        assert data, "the client went away first"
        line += data
    return decode_request(bytes(line))
