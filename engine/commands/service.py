"""`gpudeck service`: the deck's engine as a systemd service of the user, started at boot or login."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
import sys
from dataclasses import replace
from typing import Literal

from ..adapters.state.folder import load_environment, open_state_dir, save_environment
from ..adapters.state.lock import held_by
from ..adapters.systemctl import UserSystemd
from ..attempt.environment import base_environment
from ..client.linger import look
from ..command import Command
from ..core.spec import DeckSettings
from ..errors import EngineUnavailableError, UsageError
from ..opening.own_state import find_own_state
from ..taskfile.find import find_task_file
from ..taskfile.load import load, load_settings
from ..taskfile.options import RunOptions
from ..taskfile.settings import stem_of
from .asking import says_yes
from .service_unit import Deck, Unit, find_unit, unit_text, units_folder, write_unit

Action = Literal["install", "uninstall", "status", "show"]
ACTIONS: tuple[Action, ...] = ("install", "uninstall", "status", "show")

_UNABLE = 3
_NO_ANSWER = "the user's systemd does not answer"
_ASKED = ("ActiveState", "SubState", "MainPID", "UnitFileState", "Result", "ExecMainStatus")


def run(command: Command) -> int:
    """`gpudeck service ACTION [FILE]`, as it was typed. Raises DeckError."""
    action, *files = command.words or ("",)
    if action not in ACTIONS:
        raise UsageError(f"service takes {', '.join(ACTIONS)}, got {action or 'nothing'}")
    if len(files) + bool(command.file) > 1:
        raise UsageError(f"one task file at a time, got {', '.join(filter(None, [command.file, *files]))}")
    path = find_task_file(command.file or next(iter(files), None), os.environ, os.getcwd())
    return service(action, path, command.options(), force=command.flag("force"), as_root=command.flag("as_root"))


def service(action: Action, path: str, options: RunOptions, *, force: bool = False, as_root: bool = False) -> int:
    """Do *action* for the deck of *path*. Returns 0, or 3 where systemd does not do its part; raises DeckError.

    Which unit is the deck's follows from the file, --profile and --name alone, so that one can be removed whose file is
    broken or gone.
    """
    path = os.path.abspath(path)
    log_dir = options.log_dir and os.path.abspath(os.path.expanduser(options.log_dir))
    options = replace(options, log_dir=log_dir)
    systemd = UserSystemd(os.environ)
    match action:
        case "install":
            return _install(path, options, systemd, force=force, as_root=as_root)
        case "show":
            settings = load_settings(path, options)
            print(unit_text(_deck(path, options, settings.name, as_root=as_root), umask=_umask()), end="")
            return 0
        case "uninstall":
            return _uninstall(_installed(path, options), systemd)
        case "status":
            return _status(_installed(path, options), systemd)


# -- install ----------------------------------------------------------------------------------------------------------


def _install(path: str, options: RunOptions, systemd: UserSystemd, *, force: bool, as_root: bool) -> int:
    load(path, options)
    settings = load_settings(path, options)
    deck = _deck(path, options, settings.name, as_root=as_root)
    text, unit = unit_text(deck, umask=_umask()), find_unit(units_folder(os.environ), deck)
    if unit.text not in ("", text):
        _agree_to_replace(unit, text, force=force)
    _keep_environment(deck, settings)
    write_unit(unit.path, text)
    print(f"{'unchanged' if unit.text == text else 'written'}: {unit.path}")
    if not systemd.answers():
        print(
            f"{_NO_ANSWER}; from a login of yours run: "
            f"systemctl --user daemon-reload && systemctl --user enable --now {unit.name}"
        )
        return _UNABLE
    _enable(unit, systemd, running=_other_engine(deck, settings, unit, systemd), changed=unit.text not in ("", text))
    _tell_of_logouts()
    return 0


def _agree_to_replace(unit: Unit, text: str, *, force: bool) -> None:
    """Show what would change, and ask. Raises UsageError unless it may be replaced."""
    old, new = unit.text.splitlines(keepends=True), text.splitlines(keepends=True)
    print("".join(difflib.unified_diff(old, new, unit.path, "what would be installed")), end="")
    if force:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{unit.path} has other contents: --force replaces it")
    if not says_yes(f"replace {unit.path}?"):
        raise UsageError("nothing was changed")


def _keep_environment(deck: Deck, settings: DeckSettings) -> None:
    """systemd's own environment knows no venv and no module path: tasks get this shell's."""
    state = open_state_dir(deck.file, settings.state_dir, deck.state, as_root=deck.as_root)
    if load_environment(state.path) is None:
        save_environment(state.path, base_environment(os.environ))
        print("kept: this shell's environment, for the tasks")


def _enable(unit: Unit, systemd: UserSystemd, *, running: int, changed: bool) -> None:
    """Also start it, unless an engine *running* (its pid; 0: none) has the deck."""
    for words in (("daemon-reload",), ("enable", *(() if running else ("--now",)), unit.name)):
        done, said = systemd.call(*words)
        if not done:
            raise EngineUnavailableError(f"systemctl --user {' '.join(words)}: {said}")
    if running:
        print(f"enabled: {unit.name}")
        print(f"engine {running} runs the deck; to hand it over: gpudeck stop && systemctl --user start {unit.name}")
        return
    print(f"enabled and started: {unit.name}; gpudeck service status tells how it does")
    if changed:
        print(f"an engine that ran already keeps what it was started with: systemctl --user restart {unit.name}")


# -- uninstall and status ---------------------------------------------------------------------------------------------


def _uninstall(unit: Unit, systemd: UserSystemd) -> int:
    answers = systemd.answers()
    if answers:
        done, said = systemd.call("disable", "--now", unit.name)
        if not done:
            raise EngineUnavailableError(f"systemd does not stop {unit.name}: {said}")
    try:
        os.unlink(unit.path)
    except OSError as error:
        raise EngineUnavailableError(f"{unit.path} cannot be removed: {error.strerror}") from error
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(os.path.dirname(unit.path), "default.target.wants", unit.name))
    if not answers:
        print(f"removed: {unit.path}; {_NO_ANSWER}: an engine that runs goes on until gpudeck stop")
        return _UNABLE
    systemd.call("daemon-reload")
    systemd.call("reset-failed", unit.name)
    print(f"removed: {unit.path}; its engine is stopped, tasks that run go on")
    return 0


def _status(unit: Unit, systemd: UserSystemd) -> int:
    """0 while its engine runs, or has ended well: with nothing left to run it does."""
    said = systemd.properties(unit.name, *_ASKED)
    active = said.get("ActiveState", "")
    engine = f", engine {said['MainPID']}" if said.get("MainPID", "0") != "0" else ""
    enabled = said.get("UnitFileState") or "not loaded"
    print(
        f"{unit.name}: {active} ({said.get('SubState')}), {enabled}{engine}" if active else f"{unit.name}: {_NO_ANSWER}"
    )
    print(f"unit: {unit.path}")
    if active == "failed":
        how = f"{said.get('Result')}, status {said.get('ExecMainStatus')}"
        print(f"it ended: {how}; journalctl --user -u {unit.name} tells more")
    _tell_of_logouts()
    return _UNABLE if active in ("", "failed") else 0


def _tell_of_logouts() -> None:
    logout = look()
    if not logout.lingers:
        print(f"note: the service starts at your login and ends at your last logout; to keep it: {logout.remedy}")


# -- the deck and its unit --------------------------------------------------------------------------------------------


def _deck(path: str, options: RunOptions, name: str, *, as_root: bool = False) -> Deck:
    return Deck(path, stem_of(path, options), name, os.path.dirname(path), options, as_root)


def _installed(path: str, options: RunOptions) -> Unit:
    deck = _deck(path, options, "")
    unit = find_unit(units_folder(os.environ), deck)
    if not deck.owns(unit.text):
        raise UsageError(f"no service is installed for {path}: `gpudeck service install {shlex.quote(path)}`")
    return unit


def _other_engine(deck: Deck, settings: DeckSettings, unit: Unit, systemd: UserSystemd) -> int:
    """The pid of an engine that runs the deck and is not the service's; 0: none."""
    state = find_own_state(deck.file, settings.state_dir, deck.options)
    holder = held_by(state.path) if state else None
    if holder is None or str(holder.pid) == systemd.properties(unit.name, "MainPID").get("MainPID"):
        return 0
    return holder.pid


def _umask() -> int:
    """The caller's, so that what tasks write can be read by the same people as from a shell."""
    found = os.umask(0o077)
    os.umask(found)
    return found
