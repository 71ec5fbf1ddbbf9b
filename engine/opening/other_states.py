"""What other decks have done to a task's outputs: those of the same file under other names and profiles, and of other
files beside it. Their journals tell, and logs that lie where this deck has its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..adapters.journal.look import look_at
from ..adapters.state.folder import StateDir
from ..adapters.state.lock import held_by
from ..adapters.state.pointer import read_pointer
from ..core.events import AttemptEnded, AttemptStarting, StartRevoked
from ..core.spec import DeckFile, TaskSpec
from ..errors import EngineUnavailableError
from ..logs.beside import Beside
from ..logs.outputs import stamp_outputs

_AGAIN_S = 10.0
"""Journals are not read more often."""
_EXACT_S = 0.05
"""Ends are known to a hundredth of a second."""


@dataclass(slots=True)
class _Attempt:
    """The newest attempt of a state that had certain outputs."""

    fingerprint: str
    ok: bool | None = None
    """None: its end is not known."""
    wall: float = 0.0
    """Its end."""


class OtherStates:
    """Of one deck. Reads when it is asked; on one thread at a time."""

    def __init__(self, file: DeckFile) -> None:
        self._settings = file.settings
        self._stem = file.stem
        self._beside: Beside | None = None
        self._read_at = -_AGAIN_S
        self._states: dict[str, dict[tuple[str, ...], _Attempt]] = {}

    def doubt(self, spec: TaskSpec, done_wall: float | None = None) -> str:
        """Why the outputs of this task, though they are there, are no result: which deck had them last without success,
        or as other work. "" where nothing speaks against them. *done_wall*: when this deck has succeeded with it; what
        ended later counts then, if anything was written later. Of decks of other files only what did the same work
        does, and to a trial, a deck with a name or a profile, other work is as good as its own."""
        if done_wall is not None and not _written_since(spec.outputs, done_wall):
            return ""
        if time.monotonic() >= self._read_at + _AGAIN_S:
            self._states = {name: _newest(path) for name, path in self._others()}
            self._read_at = time.monotonic()
        for name, attempts in self._states.items():
            attempt = attempts.get(spec.outputs)
            if attempt is not None and (why := self._why(name, attempt, spec, done_wall)):
                return f"{name} {why}"
        if done_wall is not None:
            return ""
        if self._beside is None:
            self._beside = Beside(self._settings.log_dir)
        return self._beside.doubt(spec)

    def at_work(self, specs: Iterable[TaskSpec]) -> Iterator[str]:
        """A line for each deck that runs something now whose outputs some of these tasks have, too."""
        for name, path in self._others():
            if not _is_at_work(path):
                continue
            running = {outputs for outputs, attempt in _newest(path).items() if attempt.ok is None}
            both = [spec.name for spec in specs if spec.outputs in running]
            if both:
                more = f" and {len(both) - 1} more" if len(both) > 1 else ""
                yield (
                    f"the deck {name} in {self._settings.state_dir} runs what has the outputs of {both[0]}{more}: "
                    "each writes over the other's; give them other paths, or let one end first"
                )

    def _why(self, name: str, attempt: _Attempt, spec: TaskSpec, done_wall: float | None) -> str:
        same_work, same_file = attempt.fingerprint == spec.fingerprint, _file(name) == _file(self._stem)
        if not (same_work or same_file):
            return ""
        since = "" if done_wall is None else " since"
        if done_wall is not None and (attempt.ok is None or attempt.wall <= done_wall):
            return ""
        if attempt.ok is None:
            return "runs it, or nobody knows its end"
        if not attempt.ok:
            return f"has run it without success{since}"
        return f"has run it as other work{since}" if not same_work and "@" not in self._stem else ""

    def _others(self) -> Iterator[tuple[str, str]]:
        """Names and folders of the other states, as far as they lie on this box."""
        try:
            found = sorted(os.listdir(self._settings.state_dir))
        except OSError:
            return
        for entry in found:
            name, path = entry, os.path.join(self._settings.state_dir, entry)
            if entry.endswith(".json") and (pointer := read_pointer(path)) is not None:
                name, path = entry.removesuffix(".json"), pointer.path
            if name != self._stem and os.path.exists(os.path.join(path, "deck.db")):
                yield name, path


def _file(stem: str) -> str:
    """The part of a state's name that is its task file's."""
    return stem.partition("@")[0]


def _is_at_work(path: str) -> bool:
    """An engine runs it, or attempts that an engine has left."""
    try:
        return held_by(path) is not None or StateDir(path).unfinished() > 0
    except OSError:
        return False


def _written_since(outputs: tuple[str, ...], wall: float) -> bool:
    return any(stamp.mtime_ns > (wall + _EXACT_S) * 1e9 for stamp in stamp_outputs(outputs).values())


def _newest(path: str) -> dict[tuple[str, ...], _Attempt]:
    """By outputs; nothing of a state that cannot be read."""
    try:
        facts, _ = look_at(os.path.join(path, "deck.db"), live=held_by(path) is not None)
    except EngineUnavailableError:
        return {}
    newest: dict[tuple[str, ...], _Attempt] = {}
    lasting: dict[str, tuple[tuple[str, ...], _Attempt, _Attempt | None]] = {}
    """By task: its outputs, the attempt, and what was the newest before it."""
    for fact in facts:
        match fact:
            case AttemptStarting() if fact.outputs:
                attempt = _Attempt(fact.fingerprint)
                lasting[fact.task] = fact.outputs, attempt, newest.get(fact.outputs)
                newest[fact.outputs] = attempt
            case AttemptEnded() | StartRevoked() if fact.task in lasting:
                outputs, attempt, before = lasting.pop(fact.task)
                if isinstance(fact, AttemptEnded) and not fact.never_ran:
                    attempt.ok, attempt.wall = fact.outcome.ok, fact.wall
                elif newest.get(outputs) is attempt:
                    newest.pop(outputs)
                    newest |= {} if before is None else {outputs: before}
            case _:
                pass
    return newest
