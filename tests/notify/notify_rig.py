"""A receiver of apprise's json:// messages on a port of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Keeps what is posted to it; answers with *status*, or never."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.status = 200
        self.hangs = False
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.hangs:
                    receiver.released.wait()
                receiver.paths.append(self.path)
                receiver.got.append(json.loads(body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *args: object, **_: object) -> None:
                """Nothing on the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server.server_port}/hush-hush-token"


@contextmanager
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.released.set()
        made.server.shutdown()
        thread.join()
        made.server.server_close()
