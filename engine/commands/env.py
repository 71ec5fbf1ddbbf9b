"""`gpudeck env`: the environment that a deck's tasks start from, and taking the caller's instead."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..adapters.decklock import held_by
from ..adapters.kept_environment import load_environment, save_environment
from ..adapters.statedir import find_state_dir, open_state_dir
from ..attempt.environment import base_environment
from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..logs.secrets import masked_env
from ..taskfile.load import load_settings
from ..taskfile.options import RunOptions
from ..taskfile.settings import stem_of
from .place import task_file


def run(command: Command) -> int:
    """Print it, or with --refresh take the caller's."""
    refresh, as_root = command.flag("refresh"), command.flag("as_root")
    return env(task_file(command), command.options(), refresh=refresh, as_root=as_root)


def env(path: str, options: RunOptions, *, refresh: bool, as_root: bool = False) -> int:
    """Print the kept environment, secrets masked; with *refresh* keep the caller's from the next start on."""
    where = path, load_settings(path, options).state_dir, stem_of(path, options)
    if refresh:
        state = open_state_dir(*where, as_root=as_root)
        if elsewhere := state.left_elsewhere():
            raise EngineUnavailableError(elsewhere)
        fresh = base_environment(os.environ)
        changes = _changes(load_environment(state.path) or {}, fresh)
        save_environment(state.path, fresh)
        print(f"kept: {len(fresh)} variables of this shell, {changes} of them new or changed")
        if (holder := held_by(state.path)) is not None:
            print(f"engine {holder.pid} goes on with what it has; the next one takes them: `gpudeck stop`, `gpudeck`")
        return 0
    found = find_state_dir(*where)
    kept = None if found is None else load_environment(found.path)
    if kept is None:
        raise UsageError("no environment is kept yet: the first start of the deck keeps its caller's")
    for name, value in sorted(masked_env(kept.items()).items()):
        print(f"{name}={value}")
    return 0


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> int:
    return sum(old.get(name) != value for name, value in new.items())
