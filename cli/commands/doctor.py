"""`gpudeck doctor`: what would keep training from running here, before it is tried."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from ... import __version__
from ...engine.command import Command
from ...engine.doctor.examine import examine
from ...engine.doctor.finding import Finding, as_json, line, verdict, worst
from ...engine.doctor.subject import subject_of, task_name, within_task
from ...engine.errors import UsageError

_MOST_RANKS = 64


def run(command: Command) -> int:
    """Print a line a check as it is made; exit 1 where one fails."""
    ranks = _ranks(command)
    environ = os.environ
    signal.signal(signal.SIGTERM, _end)  # what was started is ended on the way out
    signal.signal(signal.SIGHUP, _end)
    inside = task_name(environ) and not command.file
    subject = within_task(environ) if inside else subject_of(command.file, command.options(), environ)
    found: list[Finding] = []
    for finding in examine(subject, environ, ranks=ranks):
        found.append(finding)
        if not command.flag("json"):
            print(line(finding), flush=True)
    if command.flag("json"):
        file = os.path.abspath(subject.path) if subject.path else ""
        print(as_json(found, version=__version__, file=file, task=task_name(environ)))
    else:
        print(verdict(found))
    return int(worst(found) == "fail")


def _ranks(command: Command) -> int:
    ranks: int | None = command.given.get("ranks")
    if not command.flag("distributed"):
        if ranks is not None:
            raise UsageError("-n goes with --distributed")
        return 0
    wanted = 2 if ranks is None else ranks
    if not 1 <= wanted <= _MOST_RANKS:
        raise UsageError(f"-n takes 1 to {_MOST_RANKS} ranks, got {wanted}")
    return wanted


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
