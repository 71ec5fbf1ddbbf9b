"""`gpudeck --web`: reaches the engine, prints the address, serves the screen until Ctrl-C."""

from __future__ import annotations

import asyncio
import getpass
import ipaddress
import os
import shlex
import socket
import sys
from collections.abc import Sequence

from ..engine.client.place import Place
from ..engine.command import Command
from ..engine.errors import EngineUnavailableError, UsageError

LOOPBACK = "127.0.0.1"
_VALUED = ("--port", "--host")
_DROPPED = ("--web", "--takeover")


def open_web(command: Command, arguments: Sequence[str]) -> int:
    """*arguments*: the command line as it was typed. Returns the exit code; raises DeckError where the deck or the port
    cannot be had."""
    if not command.flag("web"):
        raise UsageError("--port and --host go with --web")
    try:
        from .web.server import Guard, WebScreen
    except ImportError as error:
        raise UsageError(f"--web needs textual-serve ({error}): pip install textual-serve") from None
    read_only = command.flag("read_only")
    for name in ("headless", "plain", "json", "junit", "retry_cancelled"):
        if command.given.get(name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with --web")
    if read_only and command.flag("takeover"):
        raise UsageError("--read-only is a screen that only looks: it does not go with --takeover")
    place = Place.of(command)
    if not read_only:
        place.refuse_missing(command.file)
    host = str(command.given.get("host") or LOOPBACK)
    sock, loopback = _listen(host, int(command.given.get("port") or 0))
    with sock:
        # What is wrong with the deck is said here, not in a browser.
        _reach(place, command)
        guard = Guard([host, socket.gethostname(), socket.getfqdn()], loopback=loopback)
        server = WebScreen(screen_command(arguments), guard, title=f"gpudeck {os.path.basename(place.path)}")

        def ready() -> None:
            _say(sock, host, guard.token, loopback=loopback)

        asyncio.run(server.serve_on(sock, ready))
    goes_on = "" if read_only else "; the engine goes on: `gpudeck stop` ends it"
    print(place.hints.completed(f"the page is closed{goes_on}"), file=sys.stderr)
    return 0


def _reach(place: Place, command: Command) -> None:
    """Raises DeckError where a tab could show nothing."""
    if command.flag("read_only"):
        from .read_only import refuse_unreadable

        refuse_unreadable(place)
    else:
        with place.start(takeover=command.flag("takeover"), change=True):
            pass


def screen_command(arguments: Sequence[str]) -> str:
    """The shell line of a tab's process: the same command line, without what is about serving."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif word not in _DROPPED and not word.startswith(tuple(f"{name}=" for name in _VALUED)):
            kept.append(word)
    return f"exec {shlex.join([sys.executable, '-P', '-m', 'gpudeck', *kept])}"


def _listen(host: str, port: int) -> tuple[socket.socket, bool]:
    """A socket that listens, and whether it does so for this box alone. Raises UsageError, EngineUnavailableError."""
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be 0 to 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise UsageError(f"--host {host}: {error}") from None
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(64)
    except OSError as error:
        sock.close()
        raise EngineUnavailableError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sock, ipaddress.ip_address(str(address[0])).is_loopback


def _login() -> str:
    """ "ada@"; empty for a user without a name, as in many a container."""
    try:
        return f"{getpass.getuser()}@"
    except (KeyError, OSError):
        return ""


def _say(sock: socket.socket, host: str, token: str, *, loopback: bool) -> None:
    port = sock.getsockname()[1]
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{port}/{token}", flush=True)
    if loopback:
        there = f"{_login()}{socket.gethostname()}"
        print(f"from another box: ssh -L {port}:{shown}:{port} {there}, then open the same address", file=sys.stderr)
    else:
        print("this is not encrypted: on a network that others share, leave --host out and use ssh -L", file=sys.stderr)
    print("Ctrl-C ends the page, and stops nothing else", file=sys.stderr, flush=True)
