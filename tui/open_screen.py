"""`gpudeck` on a terminal: reaches the engine and opens the screen, both at once."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ..engine.client.connection import Connection
from ..engine.client.place import Place
from ..engine.command import Command
from ..engine.errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..engine.taskfile.options import RunOptions
from .link.feed import Comeback, Feed
from .web.environment import is_tab, without_tab

if TYPE_CHECKING:
    from .app import GpudeckApp
    from .link.ask import Asked
    from .settings.config import Config
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
    feed, ask = _only_looking(place) if read_only else (feed_of(place, takeover=command.flag("takeover")), None)
    feed.start()
    from .settings.config import load  # the engine is being reached meanwhile
    from .terminal import Terminal

    terminal = None if is_tab(os.environ) else Terminal()
    app = app_on(place, feed, ask, config=load(os.environ), terminal=terminal)
    feed.opened.wait()
    if feed.refused is not None:
        raise feed.refused if read_only else or_read_only(feed.refused, place)
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


def feed_of(place: Place, *, takeover: bool = False) -> Feed:
    """Follows the deck's engine; one that has vanished is replaced. After a goodbye none is started unasked, but one
    that another shell starts is followed."""

    def reach(vanished: bool) -> Connection:
        told = replace(place, tell=feed.say)
        return told.start(takeover=takeover and not vanished, quiet=not vanished, change=not vanished)

    feed = Feed(reach, Comeback(replace(place, tell=_nothing).attach, place.state_folder))
    return feed


def _nothing(_: str) -> None:
    """Who looks at each write says nothing beside."""


def _only_looking(place: Place) -> tuple[Feed, Callable[[], Asked]]:
    from .link.read_only import ReadOnlyFeed  # which brings half the engine with it

    feed = ReadOnlyFeed(place)
    return feed, feed.door


def app_on(
    place: Place,
    feed: Feed | None = None,
    ask: Callable[[], Asked] | None = None,
    *,
    config: Config,
    terminal: Terminal | None = None,
) -> GpudeckApp:
    """The screen over a deck; *feed*: one that runs already; *ask*: who answers, where it is not the deck's engine."""
    from .app import GpudeckApp
    from .link.ask import Asker

    if feed is None:
        feed = feed_of(place)
        feed.start()
    asker = partial(Asker, ask or (lambda: _ask(place)))
    return GpudeckApp(feed, asker, config, completed=place.hints.completed, terminal=terminal)


def _ask(place: Place) -> Connection:
    """Only an engine that the feed knows of is asked: starting one is the feed's."""
    connection = place.attach()
    if connection is None:
        raise EngineUnavailableError("no engine runs: ctrl+r starts one")
    return connection


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
