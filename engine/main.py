"""The composition root: commands, and the only place that picks adapters."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from .command import Command
from .errors import EngineUnavailableError, UsageError

_PLACES = {
    "status": "commands.status",
    "ls": "commands.ls",
    "show": "commands.show",
    "explain": "commands.explain",
    "logs": "commands.logs",
    "wait": "commands.wait",
    "attach": "commands.attach",
    "retry": "commands.act",
    "cancel": "commands.act",
    "kill": "commands.act",
    "hold": "commands.act",
    "release": "commands.act",
    "priority": "commands.act",
    "accept": "commands.act",
    "apply": "commands.apply",
    "pause": "commands.pause",
    "unpause": "commands.pause",
    "stop": "commands.stop",
    "takeover": "commands.takeover",
    "run": "run_command",
    "add": "commands.add",
    "table": "table_command",
}
"""Modules whose `run(command)` does a command and returns its exit code; imported when they are asked for, so that
every command starts fast."""

_ONCE_MORE = frozenset(
    {"retry", "cancel", "kill", "hold", "release", "priority", "accept", "apply", "pause", "unpause", "gpus"}
)
"""What may be asked for a second time when the engine went away under it."""


def run_command(command: Command) -> int:
    """Do what a command line asks for. Returns the exit code; raises DeckError for what the user can mend."""
    _refuse_gone_folder()
    if command.flag("runs"):
        command = _of_runs(command)
    if place := _PLACES.get(command.verb):
        return _done(import_module(f".{place}", __package__).run, command)
    return _OWN.get(command.verb, _run)(command)


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


def _of_runs(command: Command) -> Command:
    """The same for the deck of the commands that were run here."""
    from .runs.home import runs_file

    return replace(command, file=runs_file(command.file, os.environ))


def _file(command: Command) -> str:
    from .taskfile.find import find_task_file

    return find_task_file(command.file, os.environ, os.getcwd())


def _version(_: Command) -> int:
    from .. import __version__

    print(f"gpudeck {__version__}")
    return 0


def _schema(_: Command) -> int:
    from .taskfile.jsonschema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0


def _gpus(command: Command) -> int:
    if command.words:
        from .commands.gpus import run

        return _done(run, command)
    if command.file and not command.given.get("gpus"):
        from .commands.deckgpus import run as show_deck

        return show_deck(command)
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


def _notify(command: Command) -> int:
    from .notify_command import notify

    return notify(_file(command), command.options(), test=command.flag("test"))


def _engine(command: Command) -> int:
    from .engine_command import serve
    from .errors import DeckError
    from .run_options import decode

    options = decode(command.given.get("options") or "")
    mode = "service" if command.flag("service") else "detached"
    flags = {name: command.flag(name) for name in ("as_root", "takeover", "quiet_start")}
    try:
        return serve(_file(command), options, os.environ, mode=mode, **flags)
    except DeckError as error:
        print(f"{error}\nexit {error.exit_code}", file=sys.stderr)
        return error.exit_code


def _init(command: Command) -> int:
    from .init_command import init

    return init(
        command.file, name=command.given.get("name"), gpus=command.given.get("gpus"), force=command.flag("force")
    )


def _clean(command: Command) -> int:
    from .clean_command import clean

    return clean(
        _file(command),
        command.options(),
        selectors=command.words,
        older_than=command.given.get("older_than"),
        keep_last=command.given.get("keep_last"),
        records=command.flag("records"),
        dry_run=command.flag("dry_run"),
        yes=command.flag("yes"),
        as_json=command.flag("json"),
    )


def _service(command: Command) -> int:
    from .service_command import run_service

    return run_service(command)


def _run(command: Command) -> int:
    if command.flag("headless"):
        return _headless(command)
    from .commands.attach import run_or_attach

    return run_or_attach(command)


def _headless(command: Command) -> int:
    import asyncio

    from .adapters import host
    from .adapters.mounts import on_network
    from .engine import Engine
    from .headless import HeadlessOptions, HeadlessOutput
    from .linger import look
    from .opening import open_deck

    opened = open_deck(
        _file(command),
        command.options(),
        os.environ,
        as_root=command.flag("as_root"),
        takeover=command.flag("takeover"),
    )
    opened.warnings += filter(None, [look().hint])
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
    may_hang = on_network(settings.log_dir)
    clock = host.SystemClock()
    with HeadlessOutput(options, sys.stdout, deck_log, os.environ, clock, log_may_hang=may_hang) as output:

        async def work() -> int:
            engine = Engine(opened, output.show, cwd=os.getcwd())
            return await engine.run(takes=takes, status_period_s=output.status_period_s)

        return asyncio.run(work())


_OWN = {
    "version": _version,
    "schema": _schema,
    "gpus": _gpus,
    "check": _check,
    "plan": _plan,
    "env": _env,
    "notify": _notify,
    "engine": _engine,
    "init": _init,
    "clean": _clean,
    "service": _service,
}
