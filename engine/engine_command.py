"""`gpudeck engine`: the engine of a deck as a process of its own, without a terminal; clients and systemd start it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from .adapters.state.mounts import on_network
from .adapters.state.sockets import listen
from .decks.opening import OpenDeck, open_deck
from .decks.options import Purpose
from .ending import Mode
from .engine import Engine
from .errors import EngineUnavailableError
from .headless.output import LogOutput
from .taskfile.options import RunOptions

STATUS_PERIOD_S = 60.0
"""Between status lines in deck.log."""


def serve(
    path: str,
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    as_root: bool,
    takeover: bool,
    mode: Mode,
    purpose: Purpose = "look",
) -> int:
    """Serve a deck until nothing is left to run and nobody is attached. Returns the exit code; raises DeckError."""
    opened = open_deck(
        path,
        options,
        environ,
        as_root=as_root,
        takeover=takeover,
        purpose=purpose,
        service=mode == "service",
    )
    if mode == "detached":
        _check_socket(opened)
        _write_to(os.path.join(opened.state.path, "engine.log"))
    log_dir = opened.file.settings.log_dir
    os.makedirs(log_dir, exist_ok=True)
    with LogOutput(os.path.join(log_dir, "deck.log"), log_may_hang=on_network(log_dir)) as output:

        async def work() -> int:
            engine = Engine(opened, output.show, cwd=os.path.dirname(path), mode=mode)
            return await engine.run(purpose=purpose, takes=None, status_period_s=STATUS_PERIOD_S)

        return asyncio.run(work())


def _check_socket(opened: OpenDeck) -> None:
    """Whoever starts an engine wants to talk to it. Raises EngineUnavailableError where there is no place to listen."""
    try:
        listen(opened.state.path).close()
    except EngineUnavailableError:
        opened.journal.close()
        opened.lock.release()
        raise


def _write_to(path: str) -> None:
    """From now on what this process prints goes to *path*; whoever started it reads what it said before."""
    sys.stdout.flush()
    sys.stderr.flush()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
