"""The composition root: commands, and the only place that picks adapters."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from .command import Command
from .errors import UsageError


def run_command(command: Command) -> int:
    """Do what a command line asks for. Returns the exit code; raises DeckError for what the user can mend."""
    match command.verb:
        case "version":
            from .. import __version__

            print(f"gpudeck {__version__}")
            return 0
        case "schema":
            from .taskfile.jsonschema import json_schema

            print(json.dumps(json_schema(), indent=2))
            return 0
        case "gpus":
            return _gpus(command)
        case "check":
            return _check(command)
        case "plan":
            return _plan(command)
        case "env":
            return _env(command)
        case _:
            return _run(command)


def _file(command: Command) -> str:
    from .taskfile.find import find_task_file

    return find_task_file(command.file, os.environ, os.getcwd())


def _gpus(command: Command) -> int:
    from .gpus_command import show_gpus

    return show_gpus(command)


def _check(command: Command) -> int:
    from .check_command import check

    return check(_file(command), command.options())


def _plan(command: Command) -> int:
    from .plan_command import plan

    return plan(_file(command), command.options(), as_json=command.flag("json"))


def _env(command: Command) -> int:
    from .env_command import env

    refresh, as_root = command.flag("refresh"), command.flag("as_root")
    return env(_file(command), command.options(), refresh=refresh, as_root=as_root)


def _run(command: Command) -> int:
    path = _file(command)
    if not command.flag("headless"):
        if not os.path.exists(path):
            raise UsageError(f"{path}: no such file or command")
        raise UsageError("the screen is not there yet: gpudeck --headless FILE runs the deck, a line per event")
    from .adapters import host
    from .engine import Engine
    from .headless import HeadlessOptions, HeadlessOutput
    from .opening import open_deck

    opened = open_deck(
        path, command.options(), os.environ, as_root=command.flag("as_root"), takeover=command.flag("takeover")
    )
    settings = opened.file.settings
    takes = ["failed", "changed", "stale"]
    takes += ["cancelled"] if command.flag("retry_cancelled") else []
    takes += [] if settings.skip_existing else ["all"]
    options = HeadlessOptions(
        check_interval_s=command.given.get("check_interval", 10.0),
        json=command.flag("json"),
        junit=command.given.get("junit"),
        verbose=command.flag("verbose"),
        quiet=command.flag("quiet"),
        color=not command.flag("no_color"),
    )
    os.makedirs(settings.log_dir, exist_ok=True)
    deck_log = os.path.join(settings.log_dir, "deck.log")
    with HeadlessOutput(options, sys.stdout, deck_log, os.environ, host.SystemClock()) as output:

        async def work() -> int:
            engine = Engine(opened, output.show, cwd=os.getcwd())
            return await engine.run(takes=takes, status_period_s=output.status_period_s)

        return asyncio.run(work())
