"""What the decks of the same file under other names and profiles have run, or the file before it was renamed: their
outputs lie where this one's do."""

from __future__ import annotations

import glob
import os
from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime
from math import inf

from ..core.output_history import OutputAttempt
from ..core.spec import TaskSpec
from .files import LogNames, highest_in
from .told import read_record


class Beside:
    """The logs of these decks: "…/logs" or "…/logs/STEM", and "…/logs/STEM@NAME". May be asked on any thread."""

    def __init__(self, log_dir: str) -> None:
        """*log_dir*: that of the deck that asks."""
        this = os.path.abspath(log_dir)
        root, stem = os.path.split(this)
        if stem == "logs":
            root, stem = this, "tasks"
        plain = stem.partition("@")[0]
        found = [os.path.join(root, plain), *sorted(glob.glob(f"{glob.escape(os.path.join(root, plain))}@*"))]
        if plain == "tasks":
            found[0] = root
        names = [plain, *map(os.path.basename, found[1:])]
        self._decks = [(name, LogNames(folder)) for name, folder in zip(names, found, strict=True) if folder != this]
        strangers = {"tasks": root} | {os.path.basename(folder): folder for folder in _decks_in(root)}
        self._strangers = [
            (name, LogNames(folder)) for name, folder in strangers.items() if folder != this and folder not in found
        ]

    def attempts(self, spec: TaskSpec, apart_from: Container[str]) -> list[OutputAttempt]:
        """The newest attempt of this task in each of these logs but those of the decks *apart_from*. They do not tell
        which outputs it had: of other files only one that did the same work is meant."""
        found = _newest_of(self._decks, spec, apart_from)
        return found + [each for each in _newest_of(self._strangers, spec, apart_from) if _is_same(each, spec)]


def _is_same(attempt: OutputAttempt, spec: TaskSpec) -> bool:
    return attempt.fingerprint == spec.fingerprint


def _newest_of(
    decks: Iterable[tuple[str, LogNames]], spec: TaskSpec, apart_from: Container[str]
) -> list[OutputAttempt]:
    newest = (_newest(name, logs, spec) for name, logs in decks if name not in apart_from)
    return [each for each in newest if each is not None]


def _newest(deck: str, logs: LogNames, spec: TaskSpec) -> OutputAttempt | None:
    newest = highest_in(logs.folder(spec.name))
    if not newest:
        return None
    record = read_record(logs.paths(spec.name, newest, merge_stderr=False).json)
    attempt = OutputAttempt(spec.name, str(record.get("fingerprint", "")), spec.outputs, deck=deck)
    match record.get("end"):
        case {"kind": kind, "at": at}:
            return replace(attempt, ok=kind == "ok", ended_wall=_wall(at))
        case _:
            return attempt


def _wall(told: object) -> float:
    try:
        return datetime.fromisoformat(str(told)).timestamp()
    except ValueError:
        return inf


def _decks_in(folder: str) -> list[str]:
    """Log folders of decks that lie in it."""
    return sorted(os.path.dirname(log) for log in glob.glob(os.path.join(glob.escape(folder), "*", "deck.log")))
