"""Other folders in which a deck has had its state: what still runs under one of them must not run again under another.
The log folder has the list, which `state_dir` does not move."""

from __future__ import annotations

import contextlib
import json
import os

import msgspec

from ..adapters.state.folder import StateDir, find_state_dir
from ..adapters.state.lock import held_by
from ..atomic import write_private
from ..core.spec import DeckSettings
from ..errors import UsageError
from ..taskfile.find import STATE_DIR, stem_of
from ..taskfile.options import RunOptions
from ..text import plural
from .own_state import is_own

_NAME = ".states"


def former_states(path: str, settings: DeckSettings, options: RunOptions) -> list[StateDir]:
    """The newest first; one that is gone, or another deck's, is none. Raises UsageError where one is in use: what runs
    would run twice; EngineUnavailableError where the state is another machine's."""
    folder, stem = os.path.dirname(os.path.abspath(path)), stem_of(path, options)
    known = [os.path.normpath(os.path.join(folder, each)) for each in _listed(settings.log_dir).get(stem, [])]
    default = find_state_dir(path, STATE_DIR, stem)
    now = find_state_dir(path, settings.state_dir, stem)
    paths = [*reversed(known), *([default.path] if default is not None else [])]
    states = [StateDir(each) for each in dict.fromkeys(paths) if os.path.exists(StateDir(each).db)]
    found = [each for each in states if not _is(each, now) and is_own(path, each.path, options)]
    for state in found:
        _refuse_in_use(path, state)
    return found


def note_state(path: str, settings: DeckSettings, stem: str, state: StateDir) -> None:
    """The deck has its state here from now on. For the holder of its lock."""
    below = os.path.relpath(state.path, os.path.dirname(os.path.abspath(path)))
    said = state.path if below.startswith("..") else below  # which moves with its deck
    listed = _listed(settings.log_dir)
    before = listed.get(stem, [])
    if before[-1:] != [said]:
        content = json.dumps({**listed, stem: [*(each for each in before if each != said), said]})
        with contextlib.suppress(OSError):  # on a full disk the next engine notes it
            write_private(os.path.join(settings.log_dir, _NAME), content.encode())


def _is(state: StateDir, now: StateDir | None) -> bool:
    """Whether they are one folder, however it is said: `./state`, through a link."""
    try:
        return now is not None and os.path.samefile(state.path, now.path)
    except OSError:
        return False


def _refuse_in_use(path: str, state: StateDir) -> None:
    running = state.running()
    if running or held_by(state.path) is not None:
        words = f"{plural(running, 'task')} of it still run{'s' * (running == 1)}" if running else "its engine runs"
        raise UsageError(
            f"{path}: the deck has its state in {state.path}, and {words}: set state_dir back to it, or end what runs "
            "there first"
        )


def _listed(log_dir: str) -> dict[str, list[str]]:
    try:
        with open(os.path.join(log_dir, _NAME), "rb") as file:
            return msgspec.convert(json.loads(file.read()), dict[str, list[str]])
    except (OSError, ValueError, msgspec.ValidationError):
        return {}
