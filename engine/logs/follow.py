"""Follows what one attempt writes: how far it is, its metrics, and signs that something is wrong. Looks at files; used
by the helper process alone, since files and patterns of the user's may hang."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ..atomic import write_atomic
from .curves import Curve, Curves, KeptCurves, Place, encode_kept, read_kept
from .growing import MOST_BYTES, MetricsFile, Stream
from .marks import reader_of, said_in
from .metrics import MAX_METRICS, Points, Values, documents, finder, numbers_at, to_text
from .printable import printable
from .progress import Pace, Tracker

MANY_LINES = 100
"""In one look."""
SHOWN_CHARS = 200
"""Of the last line."""
PATTERN_CPU_S = 0.5
"""A pattern that computes for longer over what one look has found is given up."""
KEEP_S = 5.0
"""Curves that go on are written so often."""
FILES, PROGRESS, WATCH, METRIC = 1, 2, 3, 4
"""What is being done at a moment; METRIC + n for the n-th metric."""


class HungError(Exception):
    """A pattern computed for too long."""


@contextmanager
def limited_cpu(seconds: float) -> Generator[None]:
    """Raises HungError in its body after so much processor time of this process. Main thread only: `re` looks for
    signals while it searches."""

    def give_up(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def telling(lines: list[str]) -> list[str]:
    """Where many lines came at once: without the frames of a bar that are followed by another frame of the same bar."""
    if len(lines) < MANY_LINES:
        return lines
    kept: list[str] = []
    before = ""
    for line in reversed(lines):
        at = line.find("%|")
        bar = line[: max(0, at - 3)] if at >= 0 else ""
        if not bar or bar != before:
            kept.append(line)
        before = bar
    return kept[::-1]


_Line = tuple[str, "float | None"]
"""And when it was written, about, in seconds from the attempt's start; None: its values are in the curves already."""

_Placed = tuple[str, Place, "float | None", Mapping[str, float]]
"""A line, where its values belong, when it was written, and the metrics that it names itself, which no pattern finds
once more."""


class Follower:
    """Everything that is looked for in one attempt."""

    def __init__(self, ask: dict[str, Any], at: Callable[[int, int], None], most_bytes: int = MOST_BYTES) -> None:
        """*ask*: what `followed.request_of` says. *at* is told which attempt it is busy with, and with what of it;
        (0, 0): nothing. *most_bytes*: read of a log in one look."""
        self.id: int = ask["id"]
        self.token: str = ask["token"]
        self._at = at
        self._kept_path: str = ask["kept"]
        kept = self._read_kept(ask)
        known = kept.read or {}
        self._streams = {path: Stream(path, most_bytes, known.get(path)) for path in (ask["out"], ask["err"])}
        self._curves = Curves(named=True, known=kept.curves, since_s=kept.since_s)
        self._since_s = kept.since_s
        self._kept_count = 0 if kept.read is not None or not kept.curves else -1
        """Of the values that came in, those that are in the file; negative: it is not there yet."""
        self._kept_s = time.monotonic()
        self._looked_s = max(0.0, kept.lasted_s - (kept.since_s or 0.0))
        """Seconds from the attempt's start to the last look."""
        self._started_wall: float = ask["started_wall"]
        self._begun_s = time.monotonic() - max(0.0, time.time() - self._started_wall)
        self._tracker = Tracker(
            read=reader_of(ask["progress"], ask["total"]) if ask["progress"] else None, command=ask["command"]
        )
        self._own_pattern = bool(ask["progress"])
        self._pace = Pace()
        self._pace_key: object = None
        self._promised: float | None = None
        """The end that the program itself has told last, by CLOCK_BOOTTIME: used where there is nothing better."""
        self._share_by_time = 0.0
        self._values: dict[str, Values] = {}
        self._finders: list[tuple[int, str, Callable[[str], list[float]]]] = []
        self._files: dict[str, tuple[MetricsFile, list[tuple[str, str]]]] = {}
        """By path: the names and keys that are looked for in it."""
        for place, metric in enumerate(ask["metrics"]):
            self._add_metric(METRIC + place, metric)
        self._points: Points | None = Points(**ask["prune"]) if ask["prune"] else None
        if self._points is not None and self._values.setdefault(self._points.name, Values()).by == "last":
            self._values[self._points.name].by = self._points.by
        for curve in kept.curves:
            if (values := self._values.get(curve.name)) is not None:
                values.best = _best(curve, values.by)
        for name, (last, best, *_) in ask["known"].items():
            values = self._values.setdefault(name, Values())
            values.last, values.best = last, best
        self._silent_s: float | None = ask["silent_s"]
        self._grew_s: float | None = None
        self._is_silent: bool = ask["was_silent"]
        self._most_bytes: int | None = ask["most_bytes"]
        self._is_large: bool = ask["was_large"]
        self._pattern = re.compile(ask["pattern"]).search if ask["pattern"] else None
        self._line = ""
        self._sent: dict[str, Any] = {
            "share": None, "ends_at": None, "metrics": {}, "best": {}, "curve": [], "line": "",
            "silent": self._is_silent, "large": self._is_large,
        }  # fmt: skip
        self.hits: list[str] = []
        """Lines in which the watch pattern was found since they were last taken."""
        self.points: list[tuple[str, float, float | None]] = []
        """Points of `prune` that were reached since they were last taken: the metric, the point, the value."""
        self.hung: list[int] = []
        """What was given up since they were last taken."""

    def _read_kept(self, ask: dict[str, Any]) -> KeptCurves:
        """What another follower of the same attempt has kept, else what the attempts told that it goes on from."""
        self._at(self.id, FILES)
        kept = read_kept(self._kept_path)
        if kept.token != self.token:
            before = map(read_kept, ask["before"] if _goes_on(ask) else ())
            kept = next((each for each in before if each.curves), KeptCurves())
            kept = KeptCurves(kept.curves, since_s=kept.lasted_s) if kept.curves else kept
        self._at(0, 0)
        return kept

    def _add_metric(self, what: int, metric: dict[str, Any]) -> None:
        name: str = metric["name"]
        self._values[name] = Values(metric["best"])
        if metric["file"]:
            _, keys = self._files.setdefault(metric["file"], (MetricsFile(metric["file"], self._started_wall), []))
            keys.append((name, metric["key"]))
        elif metric["regex"]:
            self._finders.append((what, name, finder(metric["regex"])))

    @property
    def known(self) -> dict[str, tuple[float | None, float | None]]:
        """The last and best value of each metric, for another follower of the same attempt."""
        return {name: (value.last, value.best) for name, value in self._values.items() if value.last is not None}

    def keep(self, *, at_once: bool) -> None:
        """Write the curves where they have grown; once in a while, or *at_once*."""
        count, now = self._curves.taken, time.monotonic()
        if not self._kept_path or count == self._kept_count or not (at_once or now - self._kept_s >= KEEP_S):
            return
        self._kept_count, self._kept_s = count, now
        read = {path: stream.taken for path, stream in self._streams.items()}
        self._at(self.id, FILES)
        with contextlib.suppress(OSError):  # a full disk, a folder that was removed
            raw = encode_kept(KeptCurves(self._curves.curves(), self.token, read, self._since_s))
            write_atomic(self._kept_path, raw, durable=False, draft=f"{self._kept_path}~")
        self._at(0, 0)

    def look(self, *, final: bool = False) -> dict[str, Any]:
        """Read what is new. Returns what has changed: "share", "ends_at" (CLOCK_BOOTTIME), "metrics", their "best",
        and the "curve" of the first of them,
        the last "line", and whether it is "silent" or its logs are "large"."""
        self._at(self.id, FILES)
        grew, new = False, list[_Line]()
        now_s = time.monotonic() - self._begun_s
        for stream in self._streams.values():
            more, found = stream.read(final=final)
            grew = grew or more
            new += zip(found, self._times(stream, len(found), now_s), strict=True)
        self._files_too(now_s)
        self._at(0, 0)
        self._looked_s = max(now_s, self._looked_s)
        lines = [line for line, _ in new]
        if new:
            self._read(new)
        self._watch(lines)
        self._silence(grew=grew)
        self._is_large = (
            self._most_bytes is not None and sum(each.size for each in self._streams.values()) > self._most_bytes
        )
        return self._changes()

    def _times(self, stream: Stream, lines: int, now_s: float) -> list[float | None]:
        """When each of its lines was written, about: evenly from the last look on. None: its values are in the curves
        already."""
        written_s = now_s if stream.written_wall is None else stream.written_wall - self._started_wall
        span_s = max(0.0, min(now_s, written_s) - self._looked_s)
        new, begin_s = lines - stream.old, (self._since_s or 0.0) + self._looked_s
        return [None] * stream.old + [begin_s + span_s * (at + 1) / new for at in range(new)]

    def _read(self, new: list[_Line]) -> None:
        self._line = printable(new[-1][0][: 2 * SHOWN_CHARS]).strip()[:SHOWN_CHARS] or self._line
        for stream in self._streams.values():
            for line in stream.passed_over():
                self._tracker.read_settings(line)
        if self._points is None:
            self._take(new)
            return
        for line in sorted(new, key=lambda each: each[1] or 0.0):  # progress may be in one log, the metric in the other
            self._take([line])
            if self._tracker.share is not None:
                self.points += self._points.passed(self._tracker.share, self._values[self._points.name])

    def _take(self, new: list[_Line]) -> None:
        lines = [line for line, _ in new]
        if self._own_pattern:
            if not self._guarded(PROGRESS, lambda: self._feed(lines)):
                self._tracker.stop_reading()
                self._own_pattern = False
        else:
            self._feed(telling(lines))
        placed: list[_Placed] = []
        for line, at_s in new:
            place, said = self._curves.place(line), dict[str, float]()
            if "::gpudeck " in line:
                said = said_in(line)[1]
                for name, value in said.items():
                    if name in self._values or len(self._values) < MAX_METRICS:
                        self._values.setdefault(name, Values()).take(value)
                if at_s is not None:
                    place = self._curves.feed_said(line, at_s)
            placed.append((line, place, at_s, said))
        if self._finders:
            self._finders = [found for found in self._finders if self._find(placed, *found)]

    def _feed(self, lines: list[str]) -> None:
        for line in lines:
            self._tracker.feed(line)

    def _find(
        self,
        placed: list[_Placed],
        what: int,
        name: str,
        find: Callable[[str], list[float]],
    ) -> bool:
        def search() -> None:
            for line, place, at_s, said in placed:
                for value in () if name in said else find(line):
                    self._values[name].take(value)
                    if at_s is not None:
                        self._curves.add(name, value, place, at_s)

        return self._guarded(what, search)

    def _guarded(self, what: int, search: Callable[[], None]) -> bool:
        """Search with a pattern of the user's. False: it hung, and is not to be used again."""
        self._at(self.id, what)
        try:
            with limited_cpu(PATTERN_CPU_S):
                search()
        except (HungError, RecursionError, MemoryError):
            self.hung.append(what)
            return False
        finally:
            self._at(0, 0)
        return True

    def _files_too(self, now_s: float) -> None:
        for file, keys in self._files.values():
            raw = file.read()
            if raw is None:
                continue
            held = documents(raw)
            for name, key in keys:
                values = numbers_at(key, held)
                for value in values:
                    self._values[name].take(value)
                self._curves.told(name, values, (self._since_s or 0.0) + now_s)

    def _watch(self, lines: list[str]) -> None:
        search = self._pattern
        if search is None or not lines:
            return
        hits: list[str] = []

        def look() -> None:
            hit = next((line for line in lines if search(line)), None)
            if hit is not None:
                hits.append(printable(hit).strip()[:SHOWN_CHARS] or "…")

        if not self._guarded(WATCH, look):
            self._pattern = None
        elif hits:
            self._pattern = None
            self.hits.append(hits[0])

    def _silence(self, *, grew: bool) -> None:
        """A log that was written before it was followed was silent from then on, not from its start."""
        now = time.monotonic()
        if self._grew_s is None:
            written = [stream.written_wall for stream in self._streams.values() if stream.written_wall is not None]
            ago = max(0.0, time.time() - max(written)) if written else now - self._begun_s
            self._grew_s = max(now - ago, self._begun_s)
        elif grew:
            self._grew_s = now
        self._is_silent = self._silent_s is not None and now - self._grew_s >= self._silent_s

    def _changes(self) -> dict[str, Any]:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        share = self._tracker.share
        rank = self._tracker.rank
        if (left_s := self._tracker.left_s()) is not None:
            self._promised = now + left_s
        if self._tracker.key != self._pace_key:
            self._pace, self._pace_key = Pace(), self._tracker.key
        ends_at: float | None = None
        if share is not None and rank is not None:
            self._pace.add(now, share)
            ends_at = self._pace.end(now, rank)
        if ends_at is None and share != 1.0:
            ends_at = self._promised
        if share is None and ends_at is not None:
            share = self._share_of_time(now, ends_at)
        first = next((self._curves.curve(name) for name, one in self._values.items() if one.last is not None), None)
        state: dict[str, Any] = {
            "share": None if share is None else round(share, 4),
            "ends_at": self._steady(ends_at, now),
            "metrics": to_text({name: value.last for name, value in self._values.items() if value.last is not None}),
            "best": to_text({name: value.best for name, value in self._values.items() if value.best is not None}),
            "curve": [] if first is None else first.sparks(),
            "line": self._line,
            "silent": self._is_silent,
            "large": self._is_large,
        }
        changes = {name: value for name, value in state.items() if value != self._sent[name]}
        self._sent = state
        return changes

    def _share_of_time(self, now: float, ends_at: float) -> float | None:
        """The share that is done by the end that the program promises; it says nothing else. It does not go back."""
        age_s = time.monotonic() - self._begun_s
        left_s = max(0.0, ends_at - now)
        if age_s > 0:
            self._share_by_time = max(self._share_by_time, min(0.99, age_s / (age_s + left_s)))
        return self._share_by_time

    def _steady(self, ends_at: float | None, now: float) -> float | None:
        """The end that was told last, unless it has moved by more than a second and a hundredth of what is left."""
        told: float | None = self._sent["ends_at"]
        if ends_at is None or told is None:
            return None if ends_at is None else round(ends_at, 1)
        moved = abs(ends_at - told)
        return told if moved <= 1.0 + 0.01 * max(0.0, ends_at - now) else round(ends_at, 1)


def _goes_on(ask: dict[str, Any]) -> bool:
    """Whether an attempt goes on from earlier ones; where the engine does not know, its attempt-N.json tells."""
    if ask["resumed"] is None:
        with contextlib.suppress(OSError, ValueError), open(ask["json"], "rb") as file:
            return "resumes" in json.loads(file.read())
    return bool(ask["resumed"])


def _best(curve: Curve, by: str) -> float | None:
    best = {"max": curve.high, "min": curve.low}.get(by)
    return None if best is None else best[1]
