"""A command, by its verb: imports what does it, and runs it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module

from ..engine.command import Command
from ..engine.errors import EngineUnavailableError, UsageError

_MODULES = {
    **dict.fromkeys(("retry", "cancel", "kill", "hold", "release", "priority", "accept"), "act"),
    "unpause": "pause",
}
"""Of commands/, for commands that share one; others have one of their name. Its `run(command)` does the command and
returns the exit code; imported when it is asked for, so that every command starts fast."""

_ONCE_MORE = frozenset(
    {"retry", "cancel", "kill", "hold", "release", "priority", "accept", "apply", "pause", "unpause", "gpus", "start"}
)
"""What is asked of the next engine where one ends just when it is asked: that one has done nothing, or the same."""


def run_command(command: Command) -> int:
    """Do what a command line asks for. Returns the exit code; raises DeckError for what the user can mend."""
    _refuse_gone_folder()
    if own := _OWN.get(command.verb):
        return own(command)
    module = _MODULES.get(command.verb, command.verb)
    run: Callable[[Command], int] = import_module(f".commands.{module}", __package__).run
    try:
        return run(command)
    except UsageError as error:
        if name := _of_queue(command, str(error)):
            raise UsageError(f"{error}; {name} is in your queue: --queue means that") from None
        raise
    except EngineUnavailableError as error:
        if not error.gone or command.verb not in _ONCE_MORE:
            raise
        return run(command)


def _of_queue(command: Command, refusal: str) -> str:
    """The task that a deck does not have, where the user's queue has it; "" otherwise."""
    if command.given.get("queue", True):
        return ""
    from ..engine.client.files import queue_file
    from ..engine.core.selector import NO_MATCH
    from ..engine.runs.book import entries_in

    name, told, _ = refusal.partition(f": {NO_MATCH}")
    path = queue_file()
    in_queue = told and os.path.isfile(path) and any(entry.get("name") == name for entry in entries_in(path))
    return name if in_queue and name in command.words else ""


def _refuse_gone_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(f"the current folder cannot be used: {error.strerror}") from None


def _schema(_: Command) -> int:
    from ..engine.taskfile.reference import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0


def _engine(command: Command) -> int:
    from .run_engine import serve

    return serve(command)


def _deck(command: Command) -> int:
    if command.flag("headless"):
        from .run_engine import headless

        return headless(command)
    from .commands.attach import run_or_attach

    return run_or_attach(command)


_OWN = {
    "schema": _schema,
    "engine": _engine,
    "deck": _deck,
}
