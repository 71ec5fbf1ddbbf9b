"""`gpudeck notify`: who is told of a deck's failures and ends; with --test they get a message now."""

from __future__ import annotations

import os
import time

from ...engine.adapters import host
from ...engine.attempts.environment import base_environment
from ...engine.client.files import task_file
from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.notify.delivery import deliver
from ...engine.notify.message import Happening, Origin, fold
from ...engine.notify.targets import problems_of, resolve
from ...engine.taskfile.load import load


def run(command: Command) -> int:
    """Print who is told, no URL shown; with --test send to each, 1 where one fails. Raises DeckError."""
    path = task_file(command)
    file = load(path, command.options())
    settings = file.settings
    if not settings.notify:
        raise UsageError(f"{file.shown}: there is no [notify] with urls or a command")
    environ = base_environment(os.environ)
    values = {**file.vars, "deck": settings.name}
    targets = resolve(settings.notify, values, environ)
    problems = problems_of(settings.notify, values, environ)
    for line in problems:
        print(f"warning: {line}")
    if not command.flag("test"):
        for name in [*(name for name, _ in targets.urls), *(["the command"] if targets.command else [])]:
            print(name)
        print(f"on {', '.join(sorted(settings.notify.on))}; gpudeck notify --test sends a message now")
        return 0
    path = os.path.abspath(path)
    origin = Origin(settings.name, path, host.hostname(), settings.log_dir)
    notice = fold(origin, [Happening("test", "a test: messages arrive", 0, wall=time.time())])
    found = deliver(notice, targets, environ, settings.notify.timeout_s)
    for name, trouble in found.items():
        print(f"{name}: {trouble or 'sent'}")
    return 1 if problems or not found or any(found.values()) else 0
