"""The [deck] table and the run options that override it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from ..core.spec import Command, DeckSettings, Halt, Notify
from ..errors import UsageError
from . import cluster
from .check import Checker
from .defaults import OF_DECK, OF_NOTIFY
from .layers import Layers, set_value, table_of
from .options import RunOptions
from .placeholders import has_slots
from .problems import BadValueError
from .schema import DECK, NOTIFY
from .stem import NAME, NAME_WORDS, stem_of


def deck_settings(checker: Checker, layers: Layers, options: RunOptions) -> DeckSettings:
    """Validated settings; where something is wrong, its default, and the problem is noted."""
    said = _said(checker, layers)
    said |= _from_command_line(checker, options)
    folder, path = checker.source.folder, checker.source.path
    get = {**OF_DECK, **said}.get
    return DeckSettings(
        name=cast("str", get("name", _default_name(path))),
        gpus=cast("Literal['all']", get("gpus")),
        slots_per_gpu=cast("int", get("slots_per_gpu")),
        cpu_slots=cast("int", get("cpu_slots")),
        no_gpu=cast("Literal['auto']", get("no_gpu")),
        log_dir=_log_dir(said, folder, stem_of(path, options)),
        state_dir=os.path.join(folder, os.path.expanduser(cast("str", get("state_dir")))),
        skip_existing=cast("bool", get("skip_existing")),
        rerun_stale=cast("bool", get("rerun_stale")),
        order=cast("Literal['file']", get("order")),
        halt=cast("Halt | None", get("halt")),
        foreign=cast("Literal['avoid']", get("foreign")),
        foreign_memory_mib=cast("int", get("foreign_memory")),
        foreign_quiet_s=cast("float", get("foreign_quiet")),
        keep_free=cast("int", get("keep_free")),
        gpu_quarantine=cast("int", get("gpu_quarantine")),
        gang_patience_s=cast("float", get("gang_patience")),
        reload=cast("Literal['ask']", get("reload")),
        backend=cast("Literal['local']", get("backend")),
        max_submitted=cluster.max_submitted(checker, layers),
        snapshot=cast("bool", get("snapshot")),
        notify=_notify(checker, layers),
    )


def _notify(checker: Checker, layers: Layers) -> Notify:
    said: dict[str, object] = {}
    for key, value in layers.notify.items():
        path = layers.path("notify", key)
        said |= checker.read({key: value}, NOTIFY, path[:-1], where=table_of(path))
    get = {**OF_NOTIFY, **said}.get
    return Notify(
        urls=cast("tuple[str, ...]", get("urls")),
        command=cast("Command | None", get("command")),
        on=cast("frozenset[str]", get("on")),
        every_s=cast("float", get("every")),
        timeout_s=cast("float", get("timeout")),
    )


def _said(checker: Checker, layers: Layers) -> dict[str, object]:
    said: dict[str, object] = {}
    for key, value in layers.deck.items():
        path = layers.path("deck", key)
        if key not in DECK:
            checker.unknown({key: value}, DECK, path[:-1], where=table_of(path))
            continue
        try:
            said[key] = DECK[key].kind.read(value)
            if has_slots(value):
                raise BadValueError("has a placeholder, and [deck] knows none")
        except BadValueError as error:
            checker.note(error, path, key=key, where=table_of(path))
    return said


def _from_command_line(checker: Checker, options: RunOptions) -> dict[str, object]:
    slots = None if options.slots_per_gpu is None else set_value(options.slots_per_gpu)
    given: dict[str, tuple[str, object]] = {
        "gpus": ("--gpus", options.gpus),
        "slots_per_gpu": (
            "--slots-per-gpu",
            slots,
        ),
        "halt": ("--fail-fast", "soon,fail=1") if options.fail_fast else ("--halt", options.halt),
        "backend": ("--backend", options.backend),
        "skip_existing": ("--skip-existing", options.skip_existing),
    }
    said: dict[str, object] = {}
    for key, (option, value) in given.items():
        if value is not None:
            try:
                said[key] = DECK[key].kind.read(value)
            except BadValueError as error:
                checker.problems.add(0, f"{option} {error.words}")
    if options.log_dir is not None:
        said["log_dir"] = os.path.abspath(os.path.expanduser(options.log_dir))
    _check_names(checker, options)
    return said


def on_gpus(settings: DeckSettings, options: RunOptions) -> DeckSettings:
    """The settings with --gpus and --slots-per-gpu over them. Raises UsageError."""
    given = {
        "gpus": options.gpus,
        "slots_per_gpu": None if options.slots_per_gpu is None else set_value(options.slots_per_gpu),
    }
    read: dict[str, Any] = {}
    for key, value in given.items():
        if value is not None:
            try:
                read[key] = DECK[key].kind.read(value)
            except BadValueError as error:
                raise UsageError(f"--{key.replace('_', '-')} {error.words}") from error
    return replace(settings, **read)


def _check_names(checker: Checker, options: RunOptions) -> None:
    for option, name in (("--name", options.name), ("--profile", options.profile)):
        if name is not None and not NAME.fullmatch(name):
            checker.problems.add(0, f'{option} "{name}": {NAME_WORDS}')
    if options.log_dir == "":
        checker.problems.add(0, "--log-dir must not be empty")
    if options.limit is not None and options.limit < 1:
        checker.problems.add(0, f"--limit must be at least 1, got {options.limit}")


def _default_name(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return (os.path.basename(os.path.dirname(path)) or stem) if os.path.basename(path) == "tasks.toml" else stem


def _log_dir(said: Mapping[str, object], folder: str, stem: str) -> str:
    return os.path.join(folder, os.path.expanduser(cast("str", said.get("log_dir", default_log_dir(stem)))))


def default_log_dir(stem: str) -> str:
    """Where logs go when nothing is said, relative to the task file."""
    return "logs" if stem == "tasks" else os.path.join("logs", stem)


def places(checker: Checker, layers: Layers, options: RunOptions) -> dict[str, str]:
    """For each deck key that was said: how a message about it begins."""
    found: dict[str, str] = {}
    for key in layers.deck:
        path = layers.path("deck", key)
        found[key] = f"{checker.source.shown}:{checker.source.lines.of(*path)}: {table_of(path)}"
    for key, value in (("gpus", options.gpus), ("slots_per_gpu", options.slots_per_gpu), ("backend", options.backend)):
        if value is not None:
            found[key] = "--" + key.replace("_", "-")
    return found
