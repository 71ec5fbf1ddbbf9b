"""In GitHub Actions: a group for each failure's lines, annotations.

The runner obeys lines that begin with `::` (behind white space too) and `##[` anywhere in a line
(docs.github.com, workflow commands for GitHub Actions; runner, ActionCommand.cs). Nothing from outside may pass as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..protocol.messages import Message, Note, RunFinished
from .narrate import Narrator
from .painted import Line, Weight
from .summary import (
    SCREEN_CAPS,
    Caps,
    failure_body,
    failure_title,
    select,
    table_lines,
    totals_lines,
)
from .text import field_text
from .views import as_text
from .writer import StreamWriter

MAX_ANNOTATIONS = 10
"""GitHub shows ten errors a step."""


class GithubView:
    """Lines on a runner's stream, and commands among them."""

    def __init__(self, writer: StreamWriter, narrator: Narrator) -> None:
        self._writer = writer
        self._narrator = narrator

    def show(self, message: Message) -> None:
        lines = self._narrator.lines(message)
        if isinstance(message, Note) and message.level != "info":
            lines.append(command(message.level, message.text, title="gpudeck"))
        self._writer.write(as_text(harmless(line) for line in lines))

    def close(self) -> None:
        self._writer.close()


def harmless(line: Line) -> Line:
    """The line as the runner may read it: only those of tone `command` are commands."""
    text = line.text.replace("##[", "## [")
    if line.tone != "command" and text.lstrip().startswith("::"):
        text = f"| {text}"
    return replace(line, text=text)


def command(name: str, message: str = "", **properties: str) -> Line:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return Line(f"::{name}{' ' + given if given else ''}::{_data(message)}", Weight.VITAL, "command")


def _data(text: str) -> str:
    return field_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def github_summary(finished: RunFinished, *, simulated: bool) -> Iterator[Line]:
    """The summary with each failure's lines in a group that can be folded, then an annotation for each."""
    chosen = select(finished.rows, SCREEN_CAPS)
    yield from table_lines(chosen, simulated=simulated)
    for row in chosen.failures:
        yield command("group", failure_title(row))
        yield from failure_body(row)
        yield command("endgroup")
    yield from annotation_lines(finished)
    yield from totals_lines(finished, simulated=simulated)


def annotation_lines(finished: RunFinished) -> Iterator[Line]:
    failures = select(finished.rows, Caps(done=0, other=0, failures=None)).failures
    shown = failures if len(failures) <= MAX_ANNOTATIONS else failures[: MAX_ANNOTATIONS - 1]
    for row in shown:
        yield command("error", f"{row.reason or row.state} ({row.log})" if row.log else row.reason, title=row.task)
    if len(failures) > len(shown):
        yield command("error", f"{len(failures) - len(shown):,} more tasks failed", title="gpudeck")
