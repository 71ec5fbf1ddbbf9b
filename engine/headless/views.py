"""Who is told: plain lines, the deck's log, JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ..protocol.jsonlines import json_lines
from ..protocol.messages import Message
from .narrate import Narrator
from .painted import Line, paint
from .writer import AppendLog, StreamWriter


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
