"""`gpudeck --web`: reaches the engine, prints the address, serves the screen until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
from collections.abc import Sequence

from ..engine.client.place import Place
from ..engine.command import Command
from ..engine.errors import UsageError
from ..engine.web_address import LOOPBACK, listen, tell
from .client import DeckClient

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
    sock, loopback = listen(host, int(command.given.get("port") or 0))
    with sock:
        # What is wrong with the deck is said here, not in a browser.
        _reach(place, command)
        guard = Guard([host, socket.gethostname(), socket.getfqdn()], loopback=loopback)
        server = WebScreen(screen_command(arguments), guard, title=f"gpudeck {os.path.basename(place.path)}")

        def ready() -> None:
            tell(sock, host, guard.token, loopback=loopback)

        asyncio.run(server.serve_on(sock, ready))
    goes_on = "" if read_only else "; the engine goes on: `gpudeck stop` ends it"
    print(place.hints.completed(f"the page is closed{goes_on}"), file=sys.stderr)
    return 0


def _reach(place: Place, command: Command) -> None:
    """Raises DeckError where a tab could show nothing."""
    if not command.flag("read_only"):
        place.start(takeover=command.flag("takeover"), change=True).close()
    elif (found := DeckClient(place, read_only=True).open().result()) is not None:
        found.close()


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
