"""A search in one log stream: its hits, where it stands, and what has to be searched before it can go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from textual.worker import Worker

from ...logs.query import Query
from ...logs.search import Hits, Way, search
from ...logs.viewport import Frame
from .stream import LogStream, search_words

Step = Literal[1, -1]


class LogHunt:
    """Jumps to the nearest hit when it begins: the next one, or from the end of the file the last one. One that does
    not lead only marks its hits until it is asked to go somewhere."""

    def __init__(self, stream: LogStream, query: Query, *, leads: bool) -> None:
        self.query = query
        self.current = -1
        self._stream = stream
        self._leads = leads
        self._base = stream.frame.top - 1
        self._pending: Step | None = 1
        self._either = True
        """With nothing on one side, the other will do."""
        if query.kind == "errors":
            self._base = -1
        elif stream.frame.at_end and not stream.frame.at_start:
            self._base, self._pending = stream.frame.below, -1
        self._jumped_from: Frame | None = None
        """What is seen until the hit comes into sight."""
        self._search: Worker[None] | None = None
        self._searched_size = 0
        origin = 0 if query.kind == "errors" else stream.frame.top
        self.hits = Hits(origin)
        self._begin(origin, "both")

    def go(self, step: Step) -> None:
        """To the next hit from the one that it stands on, or from what is seen if that is elsewhere; or to the one
        before; around the end of the file."""
        if not self._is_on_its_hit():
            self.current = -1
        self._base = self.current if self.current >= 0 else self._stream.frame.top - (step > 0)
        self._pending, self._either, self._leads = step, False, True
        self._resolve()

    def lead(self) -> None:
        """Jump to the nearest hit, unless that is done."""
        if not self._leads:
            self._leads = True
            self._resolve()

    def enter(self, step: Step) -> None:
        """Coming from another stream: to the first hit, or with -1 to the last."""
        self._base = -1 if step > 0 else self.hits.high
        self._pending, self._either, self._leads = step, False, True
        self._resolve()

    def at_edge(self, step: Step) -> bool:
        """Whether there is no further hit that way, as far as the file has been searched: to its end."""
        hits, frame = self.hits, self._stream.frame
        if hits.running or not hits.whole or frame.size > max(self._searched_size, hits.high):
            return False
        return not len(hits) or (self._is_on_its_hit() and self.current == (hits.last if step > 0 else hits.first))

    def _is_on_its_hit(self) -> bool:
        """Whether the hit that it stands on is in sight, or about to be: nobody has scrolled away."""
        frame = self._stream.frame
        return frame is self._jumped_from or frame.top <= self.current < max(frame.below, frame.top + 1)

    def end(self) -> None:
        """Forget it."""
        if self._search is not None:
            self._search.cancel()
        self._stream.mark(needle="", hits=None)

    @property
    def name(self) -> str:
        """What is looked for."""
        return self.query.shown if self.query.kind != "plain" else f'"{self.query.text}"'

    @property
    def words(self) -> str:
        """How it stands, for the status line; "": all is searched and nothing found."""
        hits = self.hits
        if hits.problem:
            return hits.problem
        size = max(1, self._stream.frame.size)
        going = f" … {min(99, 100 * (hits.high - hits.low) // size)}%" if hits.running else ""
        if not len(hits):
            return going.strip()
        number = hits.number(self.current) if self.current >= 0 else None
        more = "+" if any(hits.full.values()) else ""
        return f"{number or '?'}/{len(hits):,}{more}{going}"

    def _begin(self, origin: int, way: Way) -> None:
        self.hits.running = True
        self._searched_size = self._stream.frame.size
        if self._search is not None:
            self._search.cancel()
        self._search = self._stream.run_worker(self._hear(origin, way))

    async def _hear(self, origin: int, way: Way) -> None:
        hits = self.hits
        async for told in search(self._stream.path, self.query, origin, way):
            hits.take(told)
            self._resolve()

    def _resolve(self) -> None:
        """Do what was asked for if enough is known, else see to it that it will be."""
        step = self._pending
        if step is not None and self._leads:
            target = self._target(step)
            if target is None and self._either and not self.hits.running:
                target = self.hits.previous(self._base + 1) if step > 0 else self.hits.next(self._base - 1)
            if target is not None:
                self._pending = None
                self.current, self._jumped_from = target, self._stream.frame
                self._stream.move(lambda view: view.seek(target))
            elif not self.hits.running:
                self._pending = None
        needle = self.query.text if self.query.kind == "plain" else ""
        self._stream.mark(needle=needle, hits=self.hits, current=self.current)
        self._stream.post_message(LogStream.Moved(self._stream))

    def _target(self, step: Step) -> int | None:
        """The hit to go to; None while it is being searched for, or where there is none."""
        hits, base = self.hits, self._base
        beyond = "before" if base + 1 < hits.low else "after" if base > hits.high else None
        if beyond is not None and self._beyond(beyond):
            return None
        target = hits.next(base) if step > 0 else hits.previous(base)
        if target is not None or self._further("after" if step > 0 else "before"):
            return target
        if hits.running or self._either or not hits.whole:
            return None
        return hits.first if step > 0 else hits.last

    def _beyond(self, way: Literal["after", "before"]) -> bool:
        """Where it is to go on from has not been searched; returns whether it will be."""
        if not self.hits.full[way]:
            return self._further(way)
        origin = self._stream.frame.top
        self.hits = Hits(origin)
        self._begin(origin, "both")
        return True

    def _further(self, way: Literal["after", "before"]) -> bool:
        """Whether more may be found that way; goes on searching there if nobody does."""
        hits = self.hits
        if hits.running:
            return not hits.over[way]
        grown = way == "after" and self._stream.frame.size > max(self._searched_size, hits.high)
        if not hits.full[way] and not grown:
            return False
        self._begin(hits.high if way == "after" else hits.low, way)
        hits.over[way] = hits.full[way] = False
        return True


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
