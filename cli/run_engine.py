"""The two command lines that run an engine themselves: `gpudeck --headless`, and `gpudeck engine`, which clients and
systemd start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from ..engine.adapters import host
from ..engine.adapters.state.mounts import on_network
from ..engine.adapters.state.sockets import listen
from ..engine.client.attach import with_running
from ..engine.client.detach import look_at_logout
from ..engine.client.files import task_file
from ..engine.client.place import Place
from ..engine.command import Command
from ..engine.decks.opening import OpenDeck, open_deck
from ..engine.decks.options import Purpose, decode
from ..engine.ending import Mode
from ..engine.engine import Engine
from ..engine.errors import DeckError, EngineUnavailableError, TaskFileError, threads_needed
from ..engine.headless.output import HeadlessOutput, LogOutput
from ..engine.hints import Hints
from ..engine.protocol.messages import reworded
from .commands.attach import output_options
from .commands.stop import make_way

STATUS_PERIOD_S = 60.0
"""Between status lines in deck.log."""


def headless(command: Command) -> int:
    """Run a deck until nothing is left to run, and print what happens. Returns the exit code; raises DeckError."""
    path, given = task_file(command), command.options()
    as_root, takeover = command.flag("as_root"), command.flag("takeover")
    with contextlib.suppress(EngineUnavailableError):  # which opening it tells in full
        make_way(Place.of(command), always=True)
    try:
        opened = open_deck(path, given, os.environ, as_root=as_root, takeover=takeover)
    except TaskFileError as error:
        raise with_running(error, path, given) from None
    opened.warnings += filter(None, [look_at_logout().hint])
    settings = opened.file.settings
    takes = ["failed", "changed", "stale"]
    takes += ["cancelled"] if command.flag("retry_cancelled") else []
    takes += [] if settings.skip_existing else ["all"]
    options = output_options(command)
    deck_log, may_hang = _deck_log(opened)
    clock = host.SystemClock()
    hints = Hints.of(command)
    with HeadlessOutput(options, sys.stdout, deck_log, os.environ, clock, log_may_hang=may_hang) as output:

        async def work() -> int:
            engine = Engine(opened, lambda message: output.show(reworded(message, hints.completed)), cwd=os.getcwd())
            return await engine.run(takes=takes, status_period_s=output.status_period_s)

        return asyncio.run(work())


def serve(command: Command) -> int:
    """Serve a deck until nothing is left to run and nobody is attached. Returns the exit code; whoever started it reads
    on stderr why there is no engine."""
    try:
        with threads_needed():
            return _serve(command)
    except DeckError as error:
        print(f"{error}\nexit {error.exit_code}", file=sys.stderr)
        return error.exit_code


def _serve(command: Command) -> int:
    said = command.given.get("options")
    options = command.options() if said is None else decode(said)
    mode: Mode = "service" if command.flag("service") else "detached"
    # What systemd starts goes on with a run: nobody asks then for the file as it is now.
    purpose: Purpose = "resume" if mode == "service" else command.given.get("purpose", "look")
    path = task_file(command)
    opened = open_deck(
        path,
        options,
        os.environ,
        as_root=command.flag("as_root"),
        takeover=command.flag("takeover"),
        purpose=purpose,
        service=mode == "service",
    )
    if mode == "detached":
        _check_socket(opened)
        _write_to(os.path.join(opened.state.path, "engine.log"))
    deck_log, may_hang = _deck_log(opened)
    with LogOutput(deck_log, log_may_hang=may_hang) as output:

        async def work() -> int:
            engine = Engine(opened, output.show, cwd=os.path.dirname(path), mode=mode)
            return await engine.run(purpose=purpose, takes=None, status_period_s=STATUS_PERIOD_S)

        return asyncio.run(work())


def _deck_log(opened: OpenDeck) -> tuple[str, bool]:
    """Its path, in a folder that is there, and whether that is on a server."""
    log_dir = opened.file.settings.log_dir
    os.makedirs(log_dir, exist_ok=True)
    return os.path.join(log_dir, "deck.log"), on_network(log_dir)


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
