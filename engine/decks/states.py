"""Where a deck has its state: found as its own, since a file `tasks@x.toml`, a profile x and a name x all mean the same
folder; found of a file that is broken now; and the folders that it had before."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ..adapters.state.folder import StateDir, find_state_dir
from ..adapters.state.home import Owner, owner_in, read_json
from ..adapters.state.lock import held_by
from ..atomic import write_private
from ..errors import TaskFileError, UsageError
from ..taskfile.find import STATE_DIR, default_log_dir, may_say_state_dir, stem_of
from ..taskfile.options import RunOptions
from ..text import plural

if TYPE_CHECKING:
    from ..core.spec import DeckSettings
    from ..taskfile.source import Source


def find_state(path: str, options: RunOptions) -> StateDir | None:
    """The deck's state folder; None: it has never been started. Raises DeckError."""
    state_dir = settings_said(path, options)[0].state_dir if may_say_state_dir(path) else STATE_DIR
    return find_own_state(path, state_dir, options)


def find_own_state(path: str, state_dir: str, options: RunOptions) -> StateDir | None:
    """Where the deck's state lies; None: there is none yet. Raises DeckError, where it is another deck's, too."""
    state = find_state_dir(path, state_dir, stem_of(path, options))
    if state is not None:
        refuse_other_deck(path, state.path, options)
    return state


def owner_of(path: str, options: RunOptions) -> Owner:
    """As the state notes it."""
    return Owner(os.path.basename(path), options.profile or "", options.name or "")


def refuse_other_deck(path: str, state_dir: str, options: RunOptions) -> None:
    """Raises UsageError where the state that lies there is that of another file, profile or name. A file that was
    renamed, and one that was moved with its state, keeps it."""
    found = owner_in(state_dir)
    if found is None:
        return
    owner, theirs = found
    mine = owner_of(path, options)
    if (owner.profile, owner.name) != (mine.profile, mine.name) or _are_one(theirs, path) is False:
        raise UsageError(
            f"{path}: its state would be {state_dir}, which is that of `{owner}` in {os.path.dirname(theirs)}: give it "
            "another name, profile or state_dir"
        )


def is_own(path: str, state_dir: str, options: RunOptions) -> bool:
    """Whether `refuse_other_deck` has nothing against it."""
    try:
        refuse_other_deck(path, state_dir, options)
    except UsageError:
        return False
    return True


def _are_one(one: str, other: str) -> bool | None:
    """However they are said: `./state`, through a link. None: one is not there."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return None


# -- of a task file that is broken now ---------------------------------------------------------------------------------

_TABLE = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?")
_WANTED = ("name", "state_dir", "log_dir")


def settings_said(file: str | Source, options: RunOptions) -> tuple[DeckSettings, str]:
    """The [deck] table. Of a file that cannot be read as a whole its name, state_dir and log_dir, defaults for what
    cannot be read of these, and what is wrong with it, a line each."""
    from ..taskfile.load import load_settings  # slow to load

    try:
        return load_settings(file, options), ""
    except TaskFileError as error:  # a file that was broken under a live engine
        return _settings_despite(file if isinstance(file, str) else file.shown, options), str(error)


def _settings_despite(path: str, options: RunOptions) -> DeckSettings:
    from ..core.spec import DeckSettings  # seldom needed, as what reads task files

    said = _deck_lines(path)
    folder = os.path.dirname(os.path.abspath(path))
    log_dir = said.get("log_dir", default_log_dir(stem_of(path, options)))
    if options.log_dir is not None:
        log_dir = os.path.abspath(os.path.expanduser(options.log_dir))
    return DeckSettings(
        name=said.get("name", os.path.splitext(os.path.basename(path))[0]),
        state_dir=os.path.join(folder, os.path.expanduser(said.get("state_dir", STATE_DIR))),
        log_dir=os.path.join(folder, os.path.expanduser(log_dir)),
    )


def _deck_lines(path: str) -> dict[str, str]:
    import tomllib  # seldom needed

    said: dict[str, str] = {}
    for line in _lines_of_deck(path):
        try:
            pair = tomllib.loads(line)
        except ValueError:
            continue
        said |= {key: cast("str", pair[key]) for key in _WANTED if isinstance(pair.get(key), str) and pair[key]}
    return said


def _lines_of_deck(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    table = ""
    for line in lines:
        header = _TABLE.fullmatch(line)
        if header is not None:
            table = header[1]
        elif table == "deck":
            yield line


# -- of before ---------------------------------------------------------------------------------------------------------

_FORMER = ".states"
"""In the log folder, which `state_dir` does not move: the list of them."""


def former_states(path: str, settings: DeckSettings, options: RunOptions) -> list[StateDir]:
    """Other folders in which a deck has had its state: what still runs under one of them must not run again under
    another. The newest first; one that is gone, or another deck's, is none.

    Raises UsageError where one is in use: what runs would run twice; EngineUnavailableError where the state is another
    machine's.
    """
    folder, stem = os.path.dirname(os.path.abspath(path)), stem_of(path, options)
    known = [os.path.normpath(os.path.join(folder, each)) for each in _listed(settings.log_dir).get(stem, [])]
    default = find_state_dir(path, STATE_DIR, stem)
    now = find_state_dir(path, settings.state_dir, stem)
    paths = [*reversed(known), *([default.path] if default is not None else [])]
    states = [StateDir(each) for each in dict.fromkeys(paths) if os.path.exists(StateDir(each).db)]
    others = [each for each in states if now is None or not _are_one(each.path, now.path)]
    found = [each for each in others if is_own(path, each.path, options)]
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
            write_private(os.path.join(settings.log_dir, _FORMER), content.encode())


def _refuse_in_use(path: str, state: StateDir) -> None:
    running = state.running()
    if running or held_by(state.path) is not None:
        words = f"{plural(running, 'task')} of it still run{'s' * (running == 1)}" if running else "its engine runs"
        raise UsageError(
            f"{path}: the deck has its state in {state.path}, and {words}: set state_dir back to it, or end what runs "
            "there first"
        )


def _listed(log_dir: str) -> dict[str, list[str]]:
    return read_json(os.path.join(log_dir, _FORMER), dict[str, list[str]]) or {}
