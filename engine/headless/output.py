"""Puts together what a headless run prints, from the options and from where it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self, TextIO

from ..ports import Clock
from ..protocol.jsonlines import VERSION
from ..protocol.messages import Message, Note, RunFinished
from .github import StepSummary, for_runner, github_summary
from .junit import JunitFile
from .live import STATUS_PERIOD_S, LiveView, terminal_size
from .narrate import JsonView, Narrator, Observer, PlainView
from .painted import Weight
from .summary import NO_CAPS, summary_lines
from .writer import AppendLog, AsideLog, StreamWriter


@dataclass(frozen=True, slots=True)
class HeadlessOptions:
    """What the command line says about output."""

    check_interval_s: float = 10.0
    """Between status lines; 0: none."""
    json: bool = False
    junit: str | None = None
    """Path of the JUnit file."""
    verbose: bool = False
    quiet: bool = False
    """Only failures and the summary."""
    color: bool = True


class _Closing:
    """Is closed at the end, whatever happened."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HeadlessOutput(_Closing):
    """All output of a headless run. `show` never blocks on a reader and raises nothing for one that is gone.

    The caller shows every message in order, a `Status` each `status_period_s`, and closes at the end, whatever
    happened (a context manager does). Raises UsageError when the JUnit file cannot be written.
    """

    def __init__(
        self,
        options: HeadlessOptions,
        stream: TextIO,
        deck_log_path: str,
        environ: Mapping[str, str],
        clock: Clock,
        *,
        log_may_hang: bool = False,
    ) -> None:
        """*log_may_hang*: deck.log lies on a server."""
        place = Destination.of(stream, environ)
        live = place.terminal and not place.dumb and not options.json and not options.quiet
        self.status_period_s = STATUS_PERIOD_S if live else options.check_interval_s
        """How often a `Status` is wanted; 0: never."""
        self._at_s = self._wall = 0.0
        """When the last message was."""
        self._told: set[str] = set()
        self._junit = JunitFile(options.junit) if options.junit else None
        self._log = (AsideLog if log_may_hang else AppendLog)(deck_log_path, _text_gap)
        self._deck_log = PlainView(self._log, _log_narrator(options))
        self._page = StepSummary(place.step_summary) if place.step_summary else None
        writer = StreamWriter(stream, _json_gap if options.json else _text_gap)
        self._front = _front(options, place, writer, clock, live=live)

    def show(self, message: Message) -> None:
        self._at_s = message.wall_s if isinstance(message, RunFinished) else getattr(message, "at", self._at_s)
        self._wall = message.wall
        for observer in (self._deck_log, self._junit, self._page):
            if observer:
                observer.show(message)
        self._tell_problems()
        self._front.show(message)

    def _tell_problems(self) -> None:
        """Says once what cannot be written, before the message that it was found at."""
        problems = {self._log.error, self._junit.error if self._junit else ""} - {""}
        for text in sorted(problems - self._told):
            note = Note("warning", text, self._at_s, self._wall)
            self._deck_log.show(note)
            self._front.show(note)
        self._told = problems

    def close(self) -> None:
        """Idempotent. Waits for a slow reader, but not for one that takes nothing."""
        if self._junit:
            self._junit.close()
            self._tell_problems()
        for observer in (self._page, self._deck_log, self._front):
            if observer:
                observer.close()


class LogOutput(PlainView, _Closing):
    """`deck.log` alone: what an engine without a terminal leaves."""

    def __init__(self, deck_log_path: str, *, log_may_hang: bool = False) -> None:
        """*log_may_hang*: it lies on a server."""
        log = (AsideLog if log_may_hang else AppendLog)(deck_log_path, _text_gap)
        super().__init__(log, _log_narrator(HeadlessOptions()))


class WatchOutput(_Closing):
    """What a client shows of a run that an engine sees through: the front of a headless run, without its log."""

    def __init__(self, options: HeadlessOptions, stream: TextIO, environ: Mapping[str, str], clock: Clock) -> None:
        place = Destination.of(stream, environ)
        live = place.terminal and not place.dumb and not options.quiet
        self._writer = StreamWriter(stream, _text_gap)
        self._front = _front(options, place, self._writer, clock, live=live)

    @property
    def gone(self) -> bool:
        """Nobody reads any more."""
        return self._writer.gone

    def show(self, message: Message) -> None:
        self._front.show(message)

    def close(self) -> None:
        """Idempotent."""
        self._front.close()


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the output goes."""

    terminal: bool
    dumb: bool
    """A terminal that moves no cursor."""
    colour: bool
    github: bool
    step_summary: str
    """Path, "" for none."""

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Destination:
        terminal = _is_terminal(stream)
        dumb = environ.get("TERM", "dumb") in ("dumb", "unknown", "")
        github = environ.get("GITHUB_ACTIONS") == "true"
        step_summary = environ.get("GITHUB_STEP_SUMMARY", "") if github else ""
        return cls(terminal, dumb, terminal and not dumb and not environ.get("NO_COLOR"), github, step_summary)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and stream.fileno() >= 0
    except (OSError, ValueError):
        return False


def _log_narrator(options: HeadlessOptions) -> Narrator:
    lowest = Weight.DETAIL if options.verbose else Weight.NORMAL
    everything = partial(summary_lines, caps=NO_CAPS)
    return Narrator(check_interval_s=options.check_interval_s, only_news=True, lowest=lowest, summarise=everything)


def _front(options: HeadlessOptions, place: Destination, writer: StreamWriter, clock: Clock, *, live: bool) -> Observer:
    if options.json:
        return JsonView(writer)
    lowest = Weight.VITAL if options.quiet else Weight.DETAIL if options.verbose else Weight.NORMAL
    narrator = Narrator(
        check_interval_s=0 if live else options.check_interval_s,
        only_news=not place.terminal,
        lowest=lowest,
        summarise=github_summary if place.github else summary_lines,
    )
    colour = options.color and place.colour
    if live:
        size = partial(terminal_size, writer.fd or 0)
        return LiveView(writer, narrator, colour=colour, clock=clock, size=size)
    return (
        PlainView(writer, narrator, worded=for_runner) if place.github else PlainView(writer, narrator, colour=colour)
    )


def _text_gap(count: int) -> str:
    return f"… {count:,} lines could not be written here\n"


def _json_gap(count: int) -> str:
    text = f"{count} lines could not be written here"
    note = {"v": VERSION, "event": "note", "level": "warning", "text": text, "at_s": 0.0, "unix_s": 0.0}
    return json.dumps(note) + "\n"
