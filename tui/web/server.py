"""The web server: textual-serve's, behind a guard, on one port, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import ipaddress
import json
import os
import re
import secrets
import signal
import socket
import sys
import weakref
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterable
from html import escape
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from .environment import marked

TOKEN_BYTES = 32


class Guard:
    """Knows the token of one server."""

    def __init__(self, hosts: Iterable[str], *, loopback: bool) -> None:
        """*hosts*: names that the server goes by, beside localhost. *loopback*: it listens there alone, so that no
        other address can be meant."""
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._hosts = {host.lower().rstrip(".") for host in hosts} | {"localhost"}
        self._loopback = loopback

    def knows(self, offered: str) -> bool:
        """Whether this is the token. Takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(self.token.encode(), offered.encode("utf-8", "surrogateescape"))

    def is_ours(self, host: str | None) -> bool:
        """Whether a Host header names this server. A name that somebody else's DNS points here does not; an address
        can be pointed nowhere."""
        name = _name_of(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return address.is_loopback or not self._loopback

    def same_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether an Origin header is that of a page from here."""
        return host is not None and origin in (f"http://{host}", f"https://{host}")


def _name_of(host: str | None) -> str | None:
    """The name in "name:port"; None where it is none."""
    if not host or any(char in host for char in "@/\\?# \t"):
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name else None


LINES = 8
_BYTES = 4096
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b.?"
    r"|[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


class LastWords:
    """Reads all of it, and keeps the end."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._kept = bytearray()
        self._reading = asyncio.create_task(self._read(stream))

    async def told(self, patience_s: float) -> str:
        """The last lines, as `words_of` shows them, once nothing more comes or *patience_s* are over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), patience_s)
        return words_of(bytes(self._kept))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_BYTES):
            self._kept += data
            del self._kept[:-_BYTES]


def words_of(said: bytes) -> str:
    """The last few lines, without anything that a terminal obeys."""
    lines = [line.rstrip() for line in _ESCAPES.sub("", said.decode("utf-8", "replace")).split("\n")]
    return "\n".join([line for line in lines if line][-LINES:])


PATIENCE_S = 5.0
"""A screen that does not leave within this time is killed; its engine is not touched."""
_SAID_S = 1.0
"""What a process has said is there soon after its end, unless something that it started holds its stderr open."""


class Tab(AppService):
    """As textual-serve has it, but it always ends, and the page learns of it: also what the process had to say."""

    _words: LastWords | None = None
    _left = False

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        mine = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        return marked(os.environ, {**super()._build_environment(width, height), **mine})

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        process = await super()._open_app_process(width, height)
        assert process.stderr is not None
        self._words = LastWords(process.stderr)
        process.stderr = asyncio.StreamReader()
        process.stderr.feed_eof()
        return process

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self._leave()

    async def on_meta(self, data: bytes) -> None:
        """The screen's goodbye comes before the process says its last words and ends."""
        if json.loads(data)["type"] == "exit":
            await self._leave()
        else:
            await super().on_meta(data)

    async def _leave(self) -> None:
        """Once."""
        if self._left:
            return
        self._left = True
        said = "" if self._words is None else await self._words.told(_SAID_S)
        with contextlib.suppress(ConnectionError, RuntimeError):
            if said:
                await self.remote_write_str(json.dumps(["said", said]))
            await self.remote_close()

    async def stop(self) -> None:
        task, process = self._task, self._process
        if task is None or process is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(super().stop(), PATIENCE_S)
        self._task = None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        if process.returncode is None:
            process.kill()
            await process.wait()


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{base}/static/css/xterm.css">
<style nonce="{nonce}">
@font-face {{ font-family: "Roboto Mono"; src: url("{base}/static/fonts/RobotoMono-VariableFont_wght.ttf");
  font-weight: 100 700; }}
@font-face {{ font-family: "Roboto Mono"; src: url("{base}/static/fonts/RobotoMono-Italic-VariableFont_wght.ttf");
  font-style: italic; font-weight: 100 700; }}
html, body {{ margin: 0; height: 100%; background: #121212; overflow: hidden; }}
#terminal {{ width: 100vw; height: 100vh; }}
#over {{ display: none; position: fixed; inset: 0; background: #121212; color: #e0e0e0; z-index: 20;
  font: 16px "Roboto Mono", monospace; align-items: center; justify-content: center;
  flex-direction: column; gap: 1.5em; }}
body.-closed #over {{ display: flex; }}
#said {{ max-width: 90vw; max-height: 60vh; margin: 0; overflow: auto; white-space: pre-wrap; color: #ffb4a8;
  font: inherit; }}
#said:empty {{ display: none; }}
#over button {{ font: inherit; padding: .5em 1.5em; }}
</style>
<script nonce="{nonce}">
document.fonts.load('16px "Roboto Mono"');
window.WebSocket = class extends WebSocket {{
  constructor(...where) {{
    super(...where);
    this.addEventListener("open", () => document.querySelector("#terminal textarea").focus());
    this.addEventListener("message", (event) => {{
      const [kind, text] = typeof event.data === "string" ? JSON.parse(event.data) : [];
      if (kind === "said") document.getElementById("said").textContent = text;
    }});
  }}
}};
addEventListener("DOMContentLoaded", () => document.getElementById("again").onclick = () => location.reload());
</script>
<script src="{base}/static/js/textual.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{websocket}" data-font-size="{font_size}"></div>
<div id="over"><div>This tab has left the deck, which stops nothing.</div><pre id="said"></pre>
<button id="again">Open again</button></div>
</body>
</html>
"""

_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' {websocket}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def page(title: str, base: str, websocket: str, nonce: str, font_size: int) -> str:
    """*base*: what addresses begin with. *websocket*: its whole address. *nonce*: as in `headers`."""
    return _PAGE.format(
        title=escape(title), base=base, websocket=escape(websocket, quote=True), nonce=nonce, font_size=font_size
    )


def headers(websocket: str, nonce: str) -> dict[str, str]:
    """What a browser may do with the page."""
    return {"Content-Security-Policy": _POLICY.format(nonce=nonce, websocket=websocket)}


MAX_STRANGERS = 64
"""Connections at once that have not shown the token yet; one more takes the place of the oldest."""
STRANGER_S = 5.0
"""A connection that has not shown the token within this time is closed."""


class Door:
    """Lets connections in one by one, for *handler* to speak with; few that have not shown the token yet, and not for
    long: nobody can keep others out by connections that ask nothing."""

    def __init__(self, handler: Callable[[], asyncio.Protocol]) -> None:
        self._handler = handler
        self._waiting: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        return _Entrance(self)

    def came(self, transport: asyncio.Transport) -> None:
        while len(self._waiting) >= MAX_STRANGERS:
            self._turn_out(next(iter(self._waiting)))
        self._waiting[transport] = asyncio.get_running_loop().call_later(STRANGER_S, self._turn_out, transport)
        handler = self._handler()
        transport.set_protocol(handler)
        handler.connection_made(transport)

    def welcome(self, transport: asyncio.BaseTransport | None) -> None:
        """This one has shown the token. Idempotent."""
        if transport is not None and (timer := self._waiting.pop(transport, None)):
            timer.cancel()

    def _turn_out(self, transport: asyncio.BaseTransport) -> None:
        self.welcome(transport)
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class _Entrance(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._door.came(transport)


MAX_MESSAGE_BYTES = 1 << 20
MAX_TABS = 32
CLOSING_S = 3.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebScreen(Server):
    """Serves *command*, one process a tab."""

    def __init__(self, command: str, guard: Guard, *, title: str) -> None:
        super().__init__(command, title=title)  # pyright: ignore[reportUnknownMemberType]
        self._guard = guard
        self._door: Door | None = None
        self._tabs: weakref.WeakSet[web.WebSocketResponse] = weakref.WeakSet()
        self._base = f"/{guard.token}"
        """Of all addresses: a cookie would go to every port of the host, and to whoever listens there."""

    async def serve_on(self, sock: socket.socket, ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM. *ready* is called when browsers can come."""
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, over.set)
        loop.set_exception_handler(_Short())
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=CLOSING_S)
        await runner.setup()
        assert runner.server is not None
        self._door = Door(runner.server)
        listening = await loop.create_server(self._door, sock=sock)
        try:
            ready()
            await over.wait()
        finally:
            listening.close()
            await asyncio.gather(*(tab.close() for tab in list(self._tabs)), return_exceptions=True)
            await runner.cleanup()

    def _app(self) -> web.Application:
        @web.middleware
        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app = web.Application(middlewares=[guarded], client_max_size=1 << 16)
        app.add_routes(
            [
                web.get(self._base, self._index),
                web.get(f"{self._base}/", self._index),
                web.get(f"{self._base}/ws", self._websocket),
                web.get(f"{self._base}/download/{{key}}", self.handle_download),
                web.static(f"{self._base}/static", self.statics_path),
            ]
        )
        return app

    # -- who comes in -------------------------------------------------------------------------------------------------

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Everything goes through here, what does not exist included."""
        if not self._guard.is_ours(request.headers.get("Host")):
            return _refusal("this server does not go by that name")
        origin = request.headers.get("Origin")
        needed = request.path.endswith("/ws")
        if (needed or origin is not None) and not self._guard.same_origin(origin, request.headers.get("Host")):
            return _refusal("only its own pages may ask")
        if not self._guard.knows(f"{request.path}/".split("/")[1]):
            return _refusal("open the whole address that `gpudeck --web` has printed")
        assert self._door is not None
        self._door.welcome(request.transport)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        if not response.prepared:
            response.headers.update({**_HEADERS, **response.headers})
        return response

    # -- what there is ------------------------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.Response:
        websocket, nonce = f"ws://{request.host}{self._base}/ws", secrets.token_urlsafe(16)
        size = min(40, max(6, to_int(request.query.get("fontsize", "16"), 16)))
        return web.Response(
            text=page(self.title, self._base, websocket, nonce, size),
            content_type="text/html",
            headers=headers(websocket, nonce),
        )

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        if len(self._tabs) >= MAX_TABS:
            return web.Response(status=503, text=f"{MAX_TABS} tabs are open: close one\n")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSING_S)
        width = min(1000, max(20, to_int(request.query.get("width", "80"), 80)))
        height = min(500, max(5, to_int(request.query.get("height", "24"), 24)))
        await websocket.prepare(request)
        self._tabs.add(websocket)

        async def close() -> None:
            await websocket.close()

        tab = Tab(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        try:
            await tab.start(width, height)
            with contextlib.suppress(AssertionError, LookupError, TypeError, json.JSONDecodeError):  # no page of ours
                await self._process_messages(websocket, tab)
        finally:
            self._tabs.discard(websocket)
            await tab.stop()
            await websocket.close()
        return websocket


class _Short:
    """Says once that no connection can be taken, where asyncio prints a traceback for each."""

    said = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NO_MORE:
            loop.default_exception_handler(context)
        elif not self.said:
            self.said = True
            print(f"gpudeck: the page takes no more connections: {error.strerror}", file=sys.stderr, flush=True)


def _refusal(why: str) -> web.Response:
    refused = web.Response(status=403, text=f"refused: {why}\n", headers=_HEADERS)
    refused.force_close()
    return refused
