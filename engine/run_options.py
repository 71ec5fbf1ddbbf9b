"""The options that a run was started with go on to hold while it is unfinished, whoever continues it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, cast

from .core.events import Fact, OptionsChanged, RunStarted
from .errors import UsageError
from .taskfile.options import RunOptions

_CHANGEABLE = frozenset({"gpus", "slots_per_gpu", "halt", "fail_fast", "skip_existing"})
"""What may differ when a run is continued: it changes what runs where, not what the tasks are."""
_NAMES_THE_STATE = frozenset({"profile", "name"})
_OF_EACH_START = frozenset({"only", "exclude", "limit", "with_needs"})
"""Which tasks: said anew each time. A start that names none means all, or an earlier --limit would pass for success."""


def encode(options: RunOptions) -> str:
    """What differs from the defaults, as JSON; "" for nothing."""
    default = RunOptions()
    given = {name: value for name, value in asdict(options).items() if value != getattr(default, name)}
    return json.dumps(given, sort_keys=True) if given else ""


def decode(text: str) -> RunOptions:
    """The options that `encode` wrote; keys that this version does not know are passed over."""
    said: dict[str, Any] = json.loads(text) if text else {}
    known = {field.name: said[field.name] for field in fields(RunOptions) if field.name in said}
    for name in ("only", "exclude"):
        if name in known:
            known[name] = tuple(known[name])
    return RunOptions(**known)


def options_of(facts: Iterable[Fact]) -> str:
    """What the newest run was started with, as `encode` wrote it."""
    text = ""
    for fact in facts:
        if isinstance(fact, (RunStarted, OptionsChanged)):
            text = fact.options
    return text


def continued(kept: RunOptions, given: RunOptions) -> RunOptions:
    """The options of a run that goes on: as it was started, with what is given now in the place of what was, and with
    the selection of tasks that is given now.

    Raises UsageError where what is given would make other tasks of the same ones (--set, --log-dir, --backend).
    """
    default = RunOptions()
    changes: dict[str, Any] = {}
    for field in fields(RunOptions):
        name, new, old = field.name, getattr(given, field.name), getattr(kept, field.name)
        if name in _OF_EACH_START:
            changes[name] = new
            continue
        if new == getattr(default, name) or new == old or name in _NAMES_THE_STATE:
            continue
        if name not in _CHANGEABLE:
            raise UsageError(
                f"{_flag(name)}: the run that goes on was started with {_said(name, old)}; "
                f"let it end first, or give a second one a --name"
            )
        changes[name] = new
    return replace(kept, profile=given.profile, name=given.name, **changes)


def describe(options: RunOptions) -> str:
    """The options as they would be typed."""
    default = RunOptions()
    given = [(field.name, getattr(options, field.name)) for field in fields(RunOptions)]
    return " ".join(_said(name, value) for name, value in given if value != getattr(default, name))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _said(name: str, value: object) -> str:
    if value is False:
        return _flag(f"no_{name}")
    if not value:
        return f"no {_flag(name)}"
    if isinstance(value, Mapping):
        return " ".join(f"{_flag(name)} {key}={text}" for key, text in cast("Mapping[str, str]", value).items())
    if isinstance(value, tuple):
        return " ".join(f"{_flag(name)} {item}" for item in cast("tuple[str, ...]", value))
    return _flag(name) if value is True else f"{_flag(name)} {value}"
