"""From messages to lines: which event gives which lines, and when a status line is news."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from ..protocol.jsonlines import json_lines
from ..protocol.messages import (
    DeckOpened,
    Message,
    Note,
    RunFinished,
    Status,
    TaskEnded,
    TaskSettled,
    TaskStarted,
    TaskSubmitted,
)
from .lines import (
    detail_fields,
    end_line,
    event,
    note_line,
    opened_lines,
    settled_line,
    start_line,
    status_fields,
    status_line,
    submit_line,
)
from .painted import Line, Weight, digest_lines, paint
from .summary import summary_lines
from .writer import AppendLog, StreamWriter

_EARLY_S = 0.5
"""A status that comes this much early still counts as due: the caller's timer and ours are not the same."""


class Summarise(Protocol):
    """The lines at the end of a run."""

    def __call__(self, finished: RunFinished, *, simulated: bool) -> Iterable[Line]: ...


class Narrator:
    """Tells a run in lines, for one reader.

    Status lines come at most each *check_interval_s* (0: none); with *only_news* only when one says something else
    than the last one did.
    """

    def __init__(
        self,
        *,
        check_interval_s: float,
        only_news: bool,
        lowest: Weight = Weight.NORMAL,
        summarise: Summarise = summary_lines,
    ) -> None:
        self._interval_s = check_interval_s
        self._only_news = only_news
        self._lowest = lowest
        self._summarise = summarise
        self._simulated = False
        self._said: object = None
        self._due_at = 0.0
        self._at_s = 0.0

    def lines(self, message: Message) -> list[Line]:
        """What is to be shown, in order. Of an end that is told late, since its task left processes behind, the time is
        that of the telling."""
        message = self._in_order(message)
        return [line for line in self._all(message) if line.weight >= self._lowest]

    def _in_order(self, message: Message) -> Message:
        if isinstance(message, (DeckOpened, RunFinished)):
            self._at_s = 0.0
            return message
        self._at_s = max(self._at_s, message.at)
        return message if message.at == self._at_s else replace(message, at=self._at_s)

    def _all(self, message: Message) -> Iterable[Line]:
        match message:
            case DeckOpened():
                self._simulated = message.simulated
                return opened_lines(message)
            case TaskSubmitted():
                return [submit_line(message)]
            case TaskStarted():
                return [start_line(message, simulated=self._simulated, verbose=self._lowest is Weight.DETAIL)]
            case TaskEnded():
                return self._ended(message)
            case TaskSettled():
                return [settled_line(message)]
            case Note():
                return [note_line(message)]
            case Status():
                return self._status(message)
            case RunFinished():
                return self._summarise(message, simulated=self._simulated)

    def _ended(self, message: TaskEnded) -> Iterator[Line]:
        yield end_line(message, simulated=self._simulated)
        if message.outcome != "ok":
            yield from digest_lines(message.digest, Weight.DETAIL)

    def _status(self, message: Status) -> list[Line]:
        if not self._interval_s or message.at < self._due_at - min(_EARLY_S, self._interval_s / 2):
            return []
        self._due_at = message.at + self._interval_s
        simulated, verbose = self._simulated, self._lowest is Weight.DETAIL
        details = detail_fields(message, simulated=simulated) if verbose else ()
        said = (status_fields(message, simulated=simulated), details)
        if self._only_news and said == self._said:
            return []
        self._said = said
        more = (Line(event(message.at, *each), Weight.DETAIL, "dim") for each in details)
        return [status_line(message, simulated=simulated), *more]


class Observer(Protocol):
    """Told every message of a run, in order. Raises nothing that a full disk or a lost reader causes."""

    def show(self, message: Message) -> None: ...

    def close(self) -> None:
        """The run's output ends here, with or without a `RunFinished`. Idempotent."""
        ...


def as_text(lines: Iterable[Line], *, colour: bool = False) -> str:
    return "".join(f"{paint(line, colour=colour)}\n" for line in lines)


class PlainView:
    """Lines on a stream, or in deck.log, uncut."""

    def __init__(
        self,
        writer: StreamWriter | AppendLog,
        narrator: Narrator,
        *,
        colour: bool = False,
        worded: Callable[[Message, list[Line]], Iterable[Line]] = lambda _, lines: lines,
    ) -> None:
        """*worded*: what becomes of a message's lines where a certain reader is to get them."""
        self._writer = writer
        self._narrator = narrator
        self._colour = colour
        self._worded = worded

    def show(self, message: Message) -> None:
        if text := as_text(self._worded(message, self._narrator.lines(message)), colour=self._colour):
            self._writer.write(text)

    def close(self) -> None:
        self._writer.close()


class JsonView:
    """JSON lines on a stream, nothing else."""

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer

    def show(self, message: Message) -> None:
        self._writer.write("".join(f"{line}\n" for line in json_lines(message)))

    def close(self) -> None:
        self._writer.close()
