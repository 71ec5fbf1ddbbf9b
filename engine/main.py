"""What a command line asks for is done: the table of commands, and headless runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from .command import Command
from .errors import EngineUnavailableError, TaskFileError, UsageError

if TYPE_CHECKING:
    from .opening.purpose import Purpose

_MODULES = {
    **dict.fromkeys(("retry", "cancel", "kill", "hold", "release", "priority", "accept"), "act"),
    "unpause": "pause",
}
"""Of commands/, for commands that share one; others have one of their name. Its `run(command)` does the command and
returns the exit code; imported when it is asked for, so that every command starts fast."""

_ONCE_MORE = frozenset(
    {"retry", "cancel", "kill", "hold", "release", "priority", "accept", "apply", "pause", "unpause", "gpus", "start"}
)
"""What may be asked for a second time when the engine went away under it."""


def run_command(command: Command) -> int:
    """Do what a command line asks for. Returns the exit code; raises DeckError for what the user can mend."""
    _refuse_gone_folder()
    if own := _OWN.get(command.verb):
        return own(command)
    module = _MODULES.get(command.verb, command.verb)
    return _done(import_module(f".commands.{module}", __package__).run, command)


def _done(run: Callable[[Command], int], command: Command) -> int:
    """An engine that ends just when it is asked has done nothing or the same: what acts is asked of the next one."""
    try:
        return run(command)
    except EngineUnavailableError as error:
        if not error.gone or command.verb not in _ONCE_MORE:
            raise
        return run(command)


def _refuse_gone_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(f"the current folder cannot be used: {error.strerror}") from None


def _version(_: Command) -> int:
    from .. import __version__

    print(f"gpudeck {__version__}")
    return 0


def _schema(_: Command) -> int:
    from .taskfile.reference import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0


def _engine(command: Command) -> int:
    from .client.files import task_file
    from .engine_command import serve
    from .errors import DeckError, threads_needed
    from .opening.run_options import decode

    said = command.given.get("options")
    options = command.options() if said is None else decode(said)
    mode = "service" if command.flag("service") else "detached"
    flags = {name: command.flag(name) for name in ("as_root", "takeover")}
    purpose: Purpose = command.given.get("purpose", "look")
    try:
        with threads_needed():
            return serve(task_file(command), options, os.environ, mode=mode, purpose=purpose, **flags)
    except DeckError as error:
        print(f"{error}\nexit {error.exit_code}", file=sys.stderr)
        return error.exit_code


def _run(command: Command) -> int:
    if command.flag("headless"):
        return _headless(command)
    from .commands.attach import run_or_attach

    return run_or_attach(command)


def _headless(command: Command) -> int:
    import asyncio

    from .adapters import host
    from .adapters.state.mounts import on_network
    from .client.attach import with_running
    from .client.detach import look_at_logout
    from .client.files import task_file
    from .commands.attach import output_options
    from .engine import Engine
    from .headless.output import HeadlessOutput
    from .hints import Hints
    from .opening.opening import open_deck
    from .protocol.messages import reworded

    path, given = task_file(command), command.options()
    as_root, takeover = command.flag("as_root"), command.flag("takeover")
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
    os.makedirs(settings.log_dir, exist_ok=True)
    deck_log = os.path.join(settings.log_dir, "deck.log")
    may_hang = on_network(settings.log_dir)
    clock = host.SystemClock()
    hints = Hints.of(command)
    with HeadlessOutput(options, sys.stdout, deck_log, os.environ, clock, log_may_hang=may_hang) as output:

        async def work() -> int:
            engine = Engine(opened, lambda message: output.show(reworded(message, hints.completed)), cwd=os.getcwd())
            return await engine.run(takes=takes, status_period_s=output.status_period_s)

        return asyncio.run(work())


_OWN = {
    "version": _version,
    "schema": _schema,
    "engine": _engine,
    "deck": _run,
}
