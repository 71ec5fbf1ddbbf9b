"""A search in all streams of a log view: which of them it goes on in, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .stream import LogStream
from .words import search_words

if TYPE_CHECKING:  # what searches is loaded after the first picture: see pages.load_all
    from ...logs.query import Query
    from .hunt import LogHunt, Step


class LogSearches:
    """At most one search at a time."""

    def __init__(self) -> None:
        self._hunts: dict[LogStream, LogHunt] = {}
        self._led = True
        """The keys have gone to a stream that has a hit, or there is none."""

    @property
    def going(self) -> bool:
        """Something is, or has been, looked for."""
        return bool(self._hunts)

    def begin(self, query: Query, streams: Iterable[LogStream], active: LogStream) -> None:
        """The stream that has the keys, *active*, jumps; only where it has no hit another one does."""
        from .hunt import LogHunt

        self.end()
        self._hunts = {stream: LogHunt(stream, query, leads=stream is active) for stream in streams if stream.path}
        self._led = False

    def end(self) -> None:
        """Forget it."""
        for hunt in self._hunts.values():
            hunt.end()
        self._hunts = {}

    def lead(self, active: LogStream) -> LogStream | None:
        """More has been found: the stream that has a hit, for the keys to go to; None: they stay where they are."""
        mine = self._hunts.get(active)
        if self._led or mine is None or (mine.hits.running and not len(mine.hits)):
            return None
        stream = active if len(mine.hits) else self._other_with_hits(active)
        self._led = stream is not None or not any(hunt.hits.running for hunt in self._hunts.values())
        if stream is not None:
            self._hunts[stream].lead()
        return stream

    def go(self, active: LogStream, step: Step) -> LogStream | None:
        """To the next hit; behind the last one of a stream to the first one of the other. Returns the stream that has
        it; None: nothing is looked for."""
        mine = self._hunts.get(active)
        if mine is None:
            return None
        self._led = True
        if not mine.at_edge(step) or (other := self._other_with_hits(active)) is None:
            mine.go(step)
            return active
        self._hunts[other].enter(step)
        return other

    def _other_with_hits(self, active: LogStream) -> LogStream | None:
        return next((stream for stream, hunt in self._hunts.items() if stream is not active and len(hunt.hits)), None)

    def words(self, active: LogStream, label_of: Callable[[LogStream], str], width: int) -> str:
        """How it stands, in *width* cells; "": nothing is looked for."""
        mine = self._hunts.get(active)
        if mine is None:
            return ""
        others = [
            (label_of(stream), len(hunt.hits), hunt.hits.running)
            for stream, hunt in self._hunts.items()
            if stream is not active
        ]
        return search_words(mine.name, mine.words, others, width)
