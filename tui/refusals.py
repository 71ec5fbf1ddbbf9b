"""What `gpudeck` says where it cannot open the screen that was asked for."""

from __future__ import annotations

from dataclasses import replace

from ..engine.command import Command
from ..engine.commands.place import Place
from ..engine.errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..engine.taskfile.options import RunOptions


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
    from ..engine.offline.screen import can_be_shown  # which brings half the engine with it

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
