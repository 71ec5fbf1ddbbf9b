"""`gpudeck env`: the environment that a deck's tasks start from, and taking the caller's instead."""

from __future__ import annotations

import os

from ...engine.adapters.state.folder import StateDir, load_environment, open_state_dir, save_environment
from ...engine.adapters.state.lock import held_by
from ...engine.attempts.environment import base_environment
from ...engine.attempts.secrets import masked_env
from ...engine.client.files import task_file
from ...engine.command import Command
from ...engine.decks.states import find_own_state
from ...engine.errors import EngineUnavailableError, UsageError
from ...engine.hints import Hints
from ...engine.taskfile.load import load_settings
from ...engine.taskfile.settings import stem_of
from .screen import print_json


def run(command: Command) -> int:
    """Print the kept environment, secrets masked; with --refresh keep the caller's from the next start on."""
    path, options = task_file(command), command.options()
    state_dir = load_settings(path, options).state_dir
    found = find_own_state(path, state_dir, options)
    if command.flag("refresh"):
        state = open_state_dir(path, state_dir, stem_of(path, options), as_root=command.flag("as_root"))
        if elsewhere := state.left_elsewhere():
            raise EngineUnavailableError(elsewhere)
        return _refresh(state, command)
    kept = None if found is None else load_environment(found.path)
    if kept is None:
        raise UsageError("no environment is kept yet: the first start of the deck keeps its caller's")
    shown = dict(sorted(masked_env(kept.items()).items()))
    if command.flag("json"):
        print_json({"environment": shown})
        return 0
    for name, value in shown.items():
        print(f"{name}={value}")
    return 0


def _refresh(state: StateDir, command: Command) -> int:
    fresh = base_environment(os.environ)
    before = load_environment(state.path) or {}
    changes = sum(before.get(name) != value for name, value in fresh.items())
    save_environment(state.path, fresh)
    holder = held_by(state.path)
    if command.flag("json"):
        print_json({"kept": len(fresh), "changed": changes, "engine": holder.pid if holder else None})
        return 0
    print(f"kept: {len(fresh)} variables of this shell, {changes} of them new or changed")
    if holder is not None:
        next_one = Hints.of(command).completed("the next one takes them: `gpudeck stop`, `gpudeck`")
        print(f"engine {holder.pid} goes on with what it has; {next_one}")
    return 0
