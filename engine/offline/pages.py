"""The further pages of a screen for a deck that no engine runs: what the requests of the same names would answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from ..errors import UsageError
from ..logs.files import AttemptPaths
from ..serve.failures import FailuresArgs, failures
from ..serve.graph import Graphs
from ..serve.timeline import TimelineArgs, timeline
from .deck import Offline

_READ = 64
"""So many attempt-N.json are read at most to find out which GPU is which."""


class OfflinePages:
    """Of one deck. Reads a few small files in log_dir; not for a thread that must not wait."""

    def __init__(self, offline: Offline) -> None:
        self._offline = offline
        self._learnt = False

    def answer(self, op: str, args: Mapping[str, Any], *, boot_s: float, wall_s: float) -> Any:
        """timeline, graph or errors, ready for JSON. *boot_s*: CLOCK_BOOTTIME. Raises UsageError for anything else and
        for bad arguments."""
        deck = self._offline.deck
        try:
            match op:
                case "timeline":
                    page = timeline(deck, msgspec.convert(args, TimelineArgs), self._indices(), wall_s)
                    return msgspec.to_builtins(asyncio.run(page))
                case "graph":
                    return msgspec.to_builtins(asyncio.run(Graphs(deck).graph(boot_s)))
                case "errors":
                    told = failures(deck, msgspec.convert(args, FailuresArgs), self.paths, self._indices())
                    return msgspec.to_builtins(asyncio.run(told))
                case _:
                    raise UsageError(f"{op}: no engine runs this deck")
        except msgspec.ValidationError as error:
            raise UsageError(f"bad arguments: {error}") from error

    def paths(self, task: str, attempt: int) -> AttemptPaths:
        """Where the files of an attempt are."""
        known = self._offline.deck.by_name.get(task)
        return self._offline.logs.paths(task, attempt, known is not None and known.spec.policy.merge_stderr)

    def _indices(self) -> Mapping[str, int]:
        """GPUs by UUID, as one attempt-N.json for each has them: the driver is not asked."""
        known = self._offline.index_of
        if not self._learnt:
            self._learnt = True
            telling = (path for path, uuids in self._used() if not known.keys() >= uuids)
            for path in islice(telling, _READ):
                self._offline.learn(path)
        return known

    def _used(self) -> Iterator[tuple[str, frozenset[str]]]:
        deck = self._offline.deck
        for name, attempts in [*((task.name, task.ended) for task in deck.tasks), *deck.past.ended.items()]:
            for ended in attempts:
                if ended.gpus:
                    yield self.paths(name, ended.number).json, frozenset(ended.gpus)
