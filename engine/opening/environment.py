"""The environment of a run, which every engine that goes on with it gives to its tasks."""

from __future__ import annotations

from collections.abc import Mapping

from ..adapters.state.folder import StateDir, load_environment, save_environment
from ..attempt.environment import base_environment

_TELLING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")


def run_environment(
    state: StateDir, *, keep: bool, environ: Mapping[str, str], service: bool = False
) -> tuple[Mapping[str, str], str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it.

    *keep*: an unfinished run goes on. A *service* has no environment of its own that would be of use: it takes what is
    kept. Returns it, and a warning where the caller's differs in what decides which programs run.
    """
    fresh = base_environment(environ)
    kept = load_environment(state.path) if keep or service else None
    if kept is None:
        save_environment(state.path, fresh)
        return fresh, ""
    other = [name for name in _TELLING if kept.get(name) != fresh.get(name)]
    other += [name for name in ("CUDA_VISIBLE_DEVICES",) if name in kept and name not in fresh]
    if service or not other:
        return kept, ""
    names = ", ".join(other)
    return (
        kept,
        f"tasks keep the environment of the run's start; yours has another {names}: see `gpudeck env --refresh`",
    )
