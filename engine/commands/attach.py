"""`gpudeck attach`, and `gpudeck` without a command: follows a deck until its run ends. Ctrl-C leaves, no more."""

from __future__ import annotations

import os
import sys
import time

from ..adapters import host
from ..client.connection import Connection, Gone
from ..client.place import Place
from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..headless.output import HeadlessOptions, WatchOutput
from ..protocol.messages import RunFinished, reworded
from ..protocol.words import counts_text
from .story import Story

_BROKEN_PIPE = 141


def run(command: Command) -> int:
    """Follow the deck's engine. Returns the exit code of the run, 130 after Ctrl-C."""
    place = Place.of(command)
    connection = place.attach()
    if connection is None:
        place.refuse_elsewhere()
        raise EngineUnavailableError("no engine runs this deck: `gpudeck` starts one, `gpudeck status` shows the deck")
    place.tell_environment()
    return _follow(place, connection, HeadlessOptions(), time.time())


def run_or_attach(command: Command) -> int:
    """What `gpudeck FILE` does: an engine runs the deck, started if there is none, and is followed."""
    place = Place.of(command)
    place.refuse_missing(command.file)
    if not sys.stdout.isatty():
        raise UsageError("there is no terminal here: `gpudeck --headless` runs the deck, a line per event")
    for name in ("json", "junit", "retry_cancelled"):
        if command.given.get(name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --headless")
    since = time.time()
    connection = place.start(takeover=command.flag("takeover"), quiet=True, change=True)
    pid = connection.hello.pid
    place.say(f"engine {pid} runs on when this ends; `gpudeck status` looks, `gpudeck stop` ends it; Ctrl-C leaves")
    return _follow(place, connection, output_options(command), since)


def output_options(command: Command) -> HeadlessOptions:
    """What it says about output."""
    return HeadlessOptions(
        check_interval_s=command.given.get("check_interval", 10.0),
        json=command.flag("json"),
        junit=command.given.get("junit"),
        verbose=command.flag("verbose"),
        quiet=command.flag("quiet"),
        color=not command.flag("no_color"),
    )


def _follow(place: Place, connection: Connection, options: HeadlessOptions, since: float) -> int:
    """*since*: what began before this time is not new to the caller."""
    pid = connection.hello.pid
    with connection, WatchOutput(options, sys.stdout, os.environ, host.SystemClock()) as output:
        try:
            return _show(place, connection, output, since)
        except Gone as error:
            output.close()
            place.say(f"{error}; what runs goes on without an engine, `gpudeck` starts the next one")
            return EngineUnavailableError.exit_code
        except KeyboardInterrupt:
            output.close()
            goes_on = f"engine {pid} and its tasks go on"
            place.say(f"detached: {goes_on}; `gpudeck status` looks, `gpudeck stop` ends the engine")
            return 130


def _show(place: Place, connection: Connection, output: WatchOutput, since: float) -> int:
    for message in Story(connection, since).messages():
        output.show(reworded(message, place.hints.completed))
        if isinstance(message, RunFinished):
            return message.exit_code
        picture = connection.picture
        if picture is not None and picture.head.ended:
            output.close()
            counts = picture.head.counts
            ended = f"run {picture.head.run} has ended: {counts_text(counts)}; `gpudeck status` shows it"
            print(place.hints.completed(ended))
            return 0 if counts.succeeded + counts.cached == counts.total else 1
        if output.gone:
            return _BROKEN_PIPE
    raise AssertionError("an engine's story ends with its run, or with the engine")
