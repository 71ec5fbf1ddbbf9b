"""What other decks know of a task's outputs: those of the same file under other names and profiles, and of other files
beside it. Their journals tell; where a state is gone, or cannot be read, the logs that lie where this deck has its own.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property
from math import inf

from ..adapters.journal.db import look_at
from ..adapters.state.folder import Pointer, StateDir
from ..adapters.state.home import read_json, relocation
from ..adapters.state.lock import held_by
from ..attempts.record import read_record
from ..core.events import AttemptStarting
from ..core.output_history import OutputAttempt, OutputHistory
from ..core.spec import DeckFile, TaskSpec
from ..errors import EngineUnavailableError
from ..globs import real
from ..logs.files import LogNames, highest_in

_AGAIN_S = 10.0
"""Journals are not read more often."""


class OtherDecks:
    """Of one deck. Reads when it is asked; on one thread at a time."""

    def __init__(self, file: DeckFile) -> None:
        self._settings = file.settings
        self._stem = file.stem
        self._is_trial = "@" in file.stem
        self._read_at = -_AGAIN_S
        self._histories: dict[str, OutputHistory] = {}
        """By the name of the state."""

    def at(self, spec: TaskSpec) -> Sequence[OutputAttempt]:
        """Their attempts at this task's outputs. To a trial, a deck with a name or a profile, what others have made as
        other work is as good as its own: it does not write over their results."""
        if time.monotonic() >= self._read_at + _AGAIN_S:
            found = ((name, _history(path)) for name, path in self._others())
            self._histories = {name: history for name, history in found if history is not None}
            self._read_at = time.monotonic()
        outputs = [real(path) for path in spec.outputs]
        found = [replace(each, deck=name) for name, history in self._histories.items() for each in history.of(outputs)]
        found += self._sibling_logs.attempts(spec, apart_from=self._histories)
        if self._is_trial:
            found = [replace(each, fingerprint=spec.fingerprint) if each.ok else each for each in found]
        return found

    @cached_property
    def _sibling_logs(self) -> SiblingLogs:
        return SiblingLogs(self._settings.log_dir)

    def at_work(self, specs: Iterable[TaskSpec]) -> Iterator[str]:
        """A line for each deck that runs something now whose outputs some of these tasks have, too."""
        for name, path in self._others():
            history = _history(path) if _is_at_work(path) else None
            if history is None:
                continue
            running = {output for attempt in history.lasting() for output in attempt.outputs}
            both = [spec.name for spec in specs if not running.isdisjoint(map(real, spec.outputs))]
            if both:
                more = f" and {len(both) - 1} more" if len(both) > 1 else ""
                yield (
                    f"the deck {name} in {self._settings.state_dir} runs what has the outputs of {both[0]}{more}: "
                    "each writes over the other's; give them other paths, or let one end first"
                )

    def _others(self) -> Iterator[tuple[str, str]]:
        """Names and folders of the other states, as far as they lie on this box."""
        try:
            found = sorted(os.listdir(self._settings.state_dir))
        except OSError:
            return
        for entry in found:
            name, path = entry, os.path.join(self._settings.state_dir, entry)
            if entry.endswith(".json") and (pointer := read_json(path, Pointer)) is not None:
                name, path = entry.removesuffix(".json"), pointer.path
            if name != self._stem and os.path.exists(os.path.join(path, "deck.db")):
                yield name, path


def _is_at_work(path: str) -> bool:
    """An engine runs it, or attempts that an engine has left."""
    try:
        return held_by(path) is not None or StateDir(path).unfinished() > 0
    except OSError:
        return False


def _history(path: str) -> OutputHistory | None:
    """Of the state that lies there, by real paths as they are now; None where it cannot be read."""
    try:
        facts, _ = look_at(os.path.join(path, "deck.db"))
    except EngineUnavailableError:
        return None
    moved, history = relocation(path), OutputHistory()

    @cache
    def now(output: str) -> str:
        return real(moved(output))

    for fact in facts:
        starts = isinstance(fact, AttemptStarting)
        history.add(replace(fact, outputs=tuple(map(now, fact.outputs))) if starts else fact)
    return history


class SiblingLogs:
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
        strangers = _newest_of(self._strangers, spec, apart_from)
        return found + [each for each in strangers if each.fingerprint == spec.fingerprint]


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
    attempt = OutputAttempt(
        spec.name, str(record.get("fingerprint", "")), spec.outputs, _wall(record.get("start")), deck=deck
    )
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
