"""`gpudeck` on a terminal: reaches the engine and opens the screen, both at once."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from ..engine.client.place import NO_FILE, Place
from ..engine.command import Command
from ..engine.errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..engine.hints import Hints
from ..engine.taskfile.options import RunOptions
from .client import DeckClient
from .web.environment import is_tab, without_tab

if TYPE_CHECKING:
    from .app import GpudeckApp
    from .settings import Config
    from .terminal import Terminal


def wants_screen(command: Command) -> bool:
    """Whether there is a terminal that can show one. A dumb one gets lines, as one with `--plain` does."""
    if is_tab(os.environ):
        return True
    if command.flag("headless") or command.flag("plain") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return os.environ.get("TERM", "dumb") not in ("dumb", "")


def open_screen(command: Command) -> int:
    """Run the screen until the user leaves; the process ends with it, but in a browser's tab, where the exit code is
    returned. Raises DeckError where the deck cannot be opened."""
    gc.disable()  # all that is loaded stays: `pages.load_all` has the collector begin, after the first picture
    place = Place.of(command)
    place = replace(place, environ=without_tab(place.environ))
    read_only = command.flag("read_only")
    refuse_misfits(command, on_screen=wants_screen(command))
    if not read_only:
        try:
            place.refuse_missing(command.file)
        except UsageError as error:
            raise or_read_only(error, place) from None
    unasked = not read_only and place.hints.queue and not Hints.of(command).queue
    said = (NO_FILE,) if unasked else ()
    client = DeckClient(place, takeover=command.flag("takeover"), said=said, read_only=read_only)
    opening = client.open()
    from .settings import load  # the engine is being reached meanwhile
    from .terminal import Terminal

    terminal = None if is_tab(os.environ) else Terminal()
    app = app_on(place, client, config=load(os.environ), terminal=terminal)
    try:
        opening.result()
    except DeckError as error:
        raise error if read_only else or_read_only(error, place) from None
    parting = place.hints.completed(app.run() or "")
    if parting:
        # In a tab stdout is the browser's, and what stands on stderr is shown when the screen has gone.
        print(parting, file=sys.stderr if is_tab(os.environ) else sys.stdout)
    return app.return_code or 0 if is_tab(os.environ) else _end(app.return_code or 0)


def _end(code: int) -> NoReturn:
    """At once: all threads are daemons, and to take the interpreter down takes as long as a user notices."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the terminal has gone
            stream.flush()
    os._exit(code)


def app_on(
    place: Place, client: DeckClient | None = None, *, config: Config, terminal: Terminal | None = None
) -> GpudeckApp:
    """The screen over a deck. *client*: one that reaches it already."""
    from .app import GpudeckApp

    client = client or DeckClient(place)
    return GpudeckApp(client, config, completed=place.hints.completed, terminal=terminal)


def refuse_misfits(command: Command, *, on_screen: bool) -> None:
    """*on_screen*: there is a terminal for it. Raises UsageError for options that do not go with the screen."""
    for name in ("json", "junit", "retry_cancelled"):
        if command.given.get(name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --headless")
    if not command.flag("read_only"):
        return
    for name in ("headless", "plain", "takeover"):
        if command.flag(name):
            raise UsageError(f"--read-only is a screen that only looks: it does not go with --{name}")
    if not on_screen:
        raise UsageError("--read-only needs a terminal: `gpudeck status` prints how the deck stands")


def or_read_only(refused: DeckError, place: Place) -> DeckError:
    """The same error, with a way to see the deck that cannot be opened, where there is one. Where options were given
    that may be what is wrong, it is left alone."""
    from ..engine.serve.offline import can_be_shown  # which brings half the engine with it

    options = replace(place.options, profile=None, name=None)
    mistaken = refused.exit_code == UsageError.exit_code and options != RunOptions()
    if mistaken or not can_be_shown(place):
        return refused
    text = str(refused)
    between = "\n" if "\n" in text else "; "
    told = f"{text}{between}`gpudeck --read-only` shows the deck as it was"
    if isinstance(refused, TaskFileError):
        return TaskFileError(told.splitlines())
    return UsageError(told) if refused.exit_code == UsageError.exit_code else EngineUnavailableError(told)
