"""The report as a page that follows the deck: read-only, for whoever has its key, until Ctrl-C."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import hmac
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from urllib.parse import urlsplit

from ..errors import DeckError

_KEY_BYTES = 16
_LEAST_S, _TIMES = 2.0, 10
"""A page is made again when it is so old, and so many times as old as its making took."""
_PATIENCE_S = 30.0
"""For a reader's line."""
_HEADERS = {
    "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Made:
    body: bytes
    """Compressed."""
    tag: str
    due: float
    """When it is to be made again, by the steady clock."""


class LivePage:
    """Wanted by threads that serve it, made by the main thread alone: patterns of metrics have their time limited by a
    signal."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        """*make* raises DeckError."""
        self._make = make
        self._one_at_a_time = threading.Lock()
        self._wanted: SimpleQueue[Future[_Made]] = SimpleQueue()
        self._ring, self._bell = socket.socketpair()
        self._made = _Made(b"", "", 0.0)

    def now(self) -> _Made:
        """Raises DeckError where it cannot be made at present."""
        with self._one_at_a_time:
            if time.monotonic() >= self._made.due:
                wanted: Future[_Made] = Future()
                self._wanted.put(wanted)
                self._ring.send(b"1")
                self._made = wanted.result()
            return self._made

    def make_what_is_wanted(self) -> None:
        """Until Ctrl-C, which rings the same bell: one that comes in the instant before a wait for a queue or a lock
        would not end that wait."""
        self._ring.setblocking(False)
        signal.set_wakeup_fd(self._ring.fileno(), warn_on_full_buffer=False)
        try:
            while self._bell.recv(1):
                while not self._wanted.empty():
                    wanted = self._wanted.get()
                    try:
                        wanted.set_result(self._anew())
                    except DeckError as error:
                        wanted.set_exception(error)
        finally:
            signal.set_wakeup_fd(-1)

    def _anew(self) -> _Made:
        began = time.monotonic()
        content = self._make()
        due = began + max(_LEAST_S, _TIMES * (time.monotonic() - began))
        tag = hashlib.blake2b(content, digest_size=12).hexdigest()
        return _Made(gzip.compress(content, 6), f'"{tag}"', due)


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_S
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path.strip("/").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(path, self.server.key.encode()):
            self._answer(404, b"no such page: the address ends with its key\n")
            return
        try:
            made = self.server.page.now()
        except DeckError as error:
            self._answer(503, f"{error}\n".encode("utf-8", "replace"))
            return
        if self.headers.get("If-None-Match") == made.tag:
            self._answer(304, b"", ETag=made.tag)
            return
        html = {"Content-Type": "text/html; charset=utf-8", "ETag": made.tag, "Vary": "Accept-Encoding"}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self._answer(200, made.body, **html, **{"Content-Encoding": "gzip"})
        else:
            self._answer(200, gzip.decompress(made.body), **html)

    do_HEAD = do_GET  # noqa: N815 -- its name there

    def _answer(self, code: int, body: bytes, **more: str) -> None:
        self.send_response(code)
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)), **_HEADERS, **more}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        """Nobody wants to read who looked."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, sock: socket.socket, page: LivePage) -> None:
        super().__init__(sock.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.page = page
        self.key = secrets.token_urlsafe(_KEY_BYTES)

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # somebody's line has gone
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


def serve(sock: socket.socket, make: Callable[[], bytes], ready: Callable[[str], None]) -> None:
    """Until Ctrl-C. *make* makes the page, or raises DeckError; *ready* is told the key of the address."""
    page = LivePage(make)
    with _Server(sock, page) as server, contextlib.suppress(KeyboardInterrupt):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ready(server.key)
        page.make_what_is_wanted()
