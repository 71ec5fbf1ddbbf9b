"""What a screen shows of a deck that it only looks at, from the deck's files alone. Nothing is written anywhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..attempts.progress import LastProgress, Progress, best_of, read_all
from ..client.attach import find_state
from ..client.place import Place
from ..errors import DeckError, UsageError
from ..protocol.wire import DeckHead, GpuRow, Reply, TaskRow, decode, encode
from .deck import first_of, open_offline
from .look import OfflineLook

_AT_ONCE = 256
READS = frozenset({"show", "timeline", "graph", "errors"})
"""Requests that change nothing."""


class OfflineScreen:
    """One look at a deck: the picture, and answers to the requests of READS. Not for several threads at once."""

    def __init__(self, place: Place) -> None:
        """Raises DeckError where nothing can be told of the deck."""
        self._place = place
        self._state = find_state(place.path, place.options)
        self._stamps = self._stamped()
        self._offline = open_offline(place.path, place.options, place.environ)
        self._look = OfflineLook(self._offline, place.path)

    @property
    def as_of(self) -> float:
        """When the newest of what is shown was written down, seconds since the epoch; 0: nothing ever was."""
        return max((getattr(fact, "wall", 0.0) for fact in self._offline.facts), default=0.0)

    def notes(self, unreachable: str = "") -> list[str]:
        """What the user should know of it, a line each. *unreachable*: why the engine that there is cannot be asked."""
        deck = self._offline
        told = [unreachable or self._look.saying]
        left = sum(deck.standing(token) != "runs" for token in deck.deck.active)
        if left:
            told.append(f"what became of {left} that ran is not known yet: the next engine finds out")
        if deck.broken:
            why = first_of(deck.broken).removeprefix(os.path.join(os.path.dirname(self._place.path), ""))
            told.append(f"tasks are shown as far as the journal knows them: {why}")
        if deck.damage:
            told.append(f"deck.db is damaged ({deck.damage}): shown is what comes before that")
        return told

    def outdated(self) -> bool:
        """Whether anything that is shown may be other by now. Reads no file but the task file of a deck that was never
        started. Raises DeckError."""
        return self._stamped() != self._stamps

    def _stamped(self) -> Sequence[object]:
        state = self._state or find_state(self._place.path, self._place.options)
        looked_at = [] if state is None else [state.db, f"{state.db}-wal", state.lock, state.attempts]
        return [_stamp(path) for path in (self._place.path, *looked_at)]

    def head(self) -> DeckHead:
        return self._look.head()

    def gpus(self) -> Sequence[GpuRow]:
        """Those that the deck has, or has used; nobody reads them."""
        known = {gpu.uuid for gpu in self._look.gpus()}
        used = sorted((index, uuid) for uuid, index in self._offline.index_of.items() if uuid not in known)
        unread = (GpuRow(index=at, uuid=uuid, note="no engine reads it", note_kind="unread") for at, uuid in used)
        return (*self._look.gpus(), *unread)

    def rows(self) -> list[TaskRow]:
        """Of all tasks, in file order."""
        active = {task.index for task in self._offline.deck.active.values()}
        replace = msgspec.structs.replace  # what is said of these is no reason of an attempt before
        return [replace(row, reason="") if row.index in active else row for row in self._look.rows(())]

    def metrics(self, known: Container[tuple[str, int]]) -> Iterator[list[LastProgress]]:
        """What the newest attempts of tasks reported last, some tasks at a time. Reads a small file for each (task,
        attempt) that is not *known*. May go on while another thread asks for answers."""
        deck, logs = self._offline.deck, self._offline.logs
        over = [(task.name, task.ended[-1].number) for task in deck.tasks if task.ended and task.attempt() is None]
        wanted = [attempt for attempt in over if attempt not in known]
        for start in range(0, len(wanted), _AT_ONCE):
            attempts = wanted[start : start + _AT_ONCE]
            told = read_all([(name, number, logs.paths(name, number, False).json) for name, number in attempts])
            specs = {name: deck.by_name[name].spec for name, _, _ in told}
            yield [
                (name, number, Progress(metrics=one.metrics, best=best_of(specs[name], one.best)))
                for name, number, one in told
            ]

    def answer(self, op: str, args: Mapping[str, Any]) -> Any:
        """What an engine would answer to a request of READS. Raises UsageError."""
        if op == "show":
            return _sent([self._details(str(name)) for name in args.get("tasks", ())])
        return _sent(self._look.page(op, args))

    def _details(self, name: str) -> dict[str, Any]:
        if name not in self._offline.deck.by_name:
            raise UsageError(f"no task {name!r} in this deck")
        _, *waits_for = self._look.explain(name)
        return {**self._look.details(name), "waits_for": waits_for}


def _sent(result: Any) -> Any:
    """As a client gets it that asks an engine."""
    told = decode(encode(Reply(id=0, ok=True, result=result)))
    assert isinstance(told, Reply)
    return told.result


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def can_be_shown(place: Place) -> bool:
    """Whether a deck that cannot be opened can be looked at."""
    with contextlib.suppress(DeckError, OSError):
        return bool(open_offline(place.path, place.options, place.environ).facts)
    return False
