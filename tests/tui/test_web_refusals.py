"""`gpudeck --web` as somebody without the token finds it, and what it says on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.fakes import forked
from tests.fakes.live_deck import LiveDeck, live_deck
from tests.tui.web_rig import Web, web_on

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "sleep 600"\n'


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeck]:
    with live_deck(tmp_path_factory.mktemp("deck"), DECK) as deck:
        yield deck


@pytest.fixture(scope="module")
def web(deck: LiveDeck) -> Iterator[Web]:
    with web_on(deck) as web:
        yield web


def asked(body: Callable[[aiohttp.ClientSession], Awaitable[int]]) -> int:
    async def run() -> int:
        async with aiohttp.ClientSession() as session:
            return await body(session)

    return asyncio.run(run())


def status(web: Web, path: str, **headers: str) -> int:
    async def body(session: aiohttp.ClientSession) -> int:
        async with session.get(web.base + path, headers=headers) as answer:
            return answer.status

    return asked(body)


def ws_status(web: Web, path: str, **headers: str) -> int:
    async def body(session: aiohttp.ClientSession) -> int:
        try:
            async with session.ws_connect(f"{web.base}{path}", headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    return asked(body)


@pytest.mark.parametrize(
    "path", ["/", "/ws", "/static/js/textual.js", "/static/", "/download/x", "/none", "/wrong/", "//"]
)
def test_without_the_token_nothing_is_served(web: Web, path: str):
    assert status(web, path) == 403


def test_the_token_at_the_beginning_of_the_address_opens(web: Web):
    assert status(web, f"/{web.token}") == 200
    assert status(web, f"/{web.token}/") == 200
    assert status(web, f"/{web.token}/static/js/textual.js") == 200


def test_folders_are_not_listed_and_nothing_above_them_is_served(web: Web):
    for path in ("/static/", "/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"):
        assert status(web, f"/{web.token}{path}") in (403, 404)


def test_a_name_that_was_pointed_here_is_refused_even_with_the_token(web: Web):
    assert status(web, f"/{web.token}", Host=f"evil.example:{web.port}") == 403


def test_a_websocket_needs_the_origin_of_our_page(web: Web):
    path = f"/{web.token}/ws"
    assert ws_status(web, path) == 403
    assert ws_status(web, path, Origin="http://evil.example") == 403
    assert ws_status(web, path, Origin=f"http://localhost:{web.port}") == 403
    assert ws_status(web, "/ws", Origin=web.base) == 403
    assert ws_status(web, path, Origin=web.base) == 101


def test_the_page_may_load_nothing_from_elsewhere_and_lie_in_no_other_page(web: Web):
    async def body(session: aiohttp.ClientSession) -> int:
        async with session.get(web.url) as answer:
            policy = answer.headers["Content-Security-Policy"]
            text = await answer.text()
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "https://" not in text
            assert "Set-Cookie" not in answer.headers, "other ports of the host would get it"
            return answer.status

    assert asked(body) == 200


def test_connections_that_ask_nothing_keep_nobody_out_and_fill_no_terminal(web: Web):
    """More of them than the server can have files."""
    psutil.Process(web.process.pid).rlimit(psutil.RLIMIT_NOFILE, (200, 200))
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", web.port))) for _ in range(400)]
        for one in idle:
            with contextlib.suppress(OSError):
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        assert status(web, f"/{web.token}") == 200
    assert web.process.stderr is not None
    assert (
        not select.select([web.process.stderr], [], [], 0)[0]
        or "Traceback" not in os.read(web.process.stderr.fileno(), 1 << 16).decode()
    )


def test_it_listens_on_loopback_alone(web: Web):
    found = [one.laddr for one in psutil.Process(web.process.pid).net_connections() if one.status == "LISTEN"]
    assert [(one.ip, one.port) for one in found] == [("127.0.0.1", web.port)]


def said(deck: LiveDeck, *arguments: str) -> tuple[int, str]:
    done = forked.run(arguments, cwd=deck.folder, env=deck.env, timeout=60)
    return done.returncode, done.stderr.decode()


def test_a_port_that_is_taken_is_named(deck: LiveDeck, web: Web):
    code, text = said(deck, "--web", "--port", str(web.port))
    assert (code, text) == (3, f"gpudeck: cannot listen on 127.0.0.1:{web.port}: Address already in use\n")


def test_a_deck_that_cannot_be_read_is_told_on_the_terminal(tmp_path: Path):
    deck = LiveDeck(tmp_path)
    deck.write("[deck]\n")
    code, text = said(deck, "--web")
    assert code == 2
    assert "there is no [[task]] in the file" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "80"), "--port and --host go with --web"),
        (("--web", "--headless"), "--headless does not go with --web"),
        (("--web", "--host", "no.such.host.invalid"), "--host no.such.host.invalid"),
        (("--web", "--port", "99999"), "port"),
    ],
)
def test_what_cannot_be_meant_is_refused(deck: LiveDeck, arguments: tuple[str, ...], words: str):
    code, text = said(deck, *arguments)
    assert code == 2
    assert words in text
