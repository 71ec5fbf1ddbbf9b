"""Checkpoints: whole or not there, written by rank 0, the same whether one process trained or many."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn

from .errors import DistributedError
from .models import unwrap
from .session import current

_COUNTER = re.compile(r"\d+(?!.*\d)")


def save(state: Mapping[str, Any], path: str | os.PathLike[str], keep: int | None = None) -> None:
    """Write *state* to *path* on rank 0; the other processes go on.

    Models, optimizers and the like in *state* are saved as their `state_dict()`, models without their wrappers, so no
    name begins with "module.". A kill at any time leaves the old file or the new one. With *keep*, only so many of the
    files that differ from *path* in the last number of their names stay, the last ones written ("epoch-7.pt"); a name
    without a number is a ValueError. Raises OSError where it cannot be written.
    """
    target = os.fspath(path)
    if keep is not None and (keep < 1 or not _COUNTER.search(os.path.basename(target))):
        raise ValueError(f"keep={keep} of {target!r}: it counts files that have a number in their names, at least one")
    if not current().is_main:
        return
    folder = os.path.dirname(target) or "."
    os.makedirs(folder, exist_ok=True)
    _write(_plain(state), target, folder)
    if keep is not None:
        for old in _written(folder, os.path.basename(target))[:-keep]:
            if old != os.path.basename(target):
                os.unlink(os.path.join(folder, old))


def load(path: str | os.PathLike[str], *, weights_only: bool = True, **into: Any) -> dict[str, Any]:
    """Read what `save` wrote, in every process, onto the CPU.

    What is named in *into* (`load(path, model=model, optimizer=optimizer)`) gets its part of it by `load_state_dict`.
    *weights_only* = False also reads pickled objects, of files that you trust. Raises FileNotFoundError, and
    DistributedError for a part that the file does not have.
    """
    state = cast("dict[str, Any]", torch.load(path, map_location="cpu", weights_only=weights_only))
    for name, target in into.items():
        if name not in state:
            raise DistributedError(f"{os.fspath(path)} has no {name!r}: it has {', '.join(state)}")
        if isinstance(target, nn.Module):
            unwrap(target).load_state_dict(_without_prefix(state[name]))
        else:
            target.load_state_dict(state[name])
    return state


def latest(path: str | os.PathLike[str]) -> str | None:
    """The last written of the files that differ from *path* in the last number of their names; None: there is none.

    The same answer in all processes: rank 0 looks.
    """
    target = os.fspath(path)
    folder = os.path.dirname(target) or "."
    found = [None]
    if current().is_main:
        names = _written(folder, os.path.basename(target)) if os.path.isdir(folder) else []
        found = [os.path.join(os.path.dirname(target), names[-1]) if names else None]
    if current().world_size > 1:
        torch.distributed.broadcast_object_list(found, 0)
    return found[0]


def _write(state: dict[str, Any], target: str, folder: str) -> None:
    """One name for all attempts: what a kill left is overwritten by the next, and does not pile up."""
    draft = os.path.join(folder, f".{os.path.basename(target)}.tmp")
    with open(draft, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, target)
    entry = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in state.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, nn.Module):
        return unwrap(value).state_dict()
    if hasattr(value, "state_dict"):
        return value.state_dict()
    if isinstance(value, dict) and current().strategy != "single":
        return _without_prefix(cast("dict[Any, Any]", value))
    return cast("Any", value)


def _without_prefix(weights: dict[Any, Any]) -> dict[Any, Any]:
    """The state of a wrapper, whose names all begin with "module.", as the model's own."""
    if not weights or not all(isinstance(name, str) and name.startswith("module.") for name in weights):
        return weights
    return {name.removeprefix("module."): value for name, value in weights.items()}


def _written(folder: str, name: str) -> list[str]:
    """The names in *folder* that differ from *name* in the last number, in the order of writing: a resumed training may
    count from a lower number on."""
    counter = _COUNTER.search(name)
    if counter is None:
        pattern = re.compile(re.escape(name))
    else:
        pattern = re.compile(re.escape(name[: counter.start()]) + r"(\d+)" + re.escape(name[counter.end() :]))
    found: list[tuple[int, int, str]] = []
    for entry in os.scandir(folder):
        match = pattern.fullmatch(entry.name)
        if match and entry.is_file():
            found.append((entry.stat().st_mtime_ns, int(match[1]) if match.groups() else 0, entry.name))
    return [each for *_, each in sorted(found)]
