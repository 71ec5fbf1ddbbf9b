"""In GitHub Actions: a group for each failure's lines, annotations.

The runner obeys lines that begin with `::` (behind white space too) and `##[` anywhere in a line
(docs.github.com, workflow commands for GitHub Actions; runner, ActionCommand.cs). Nothing from outside may pass as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..protocol.messages import DeckOpened, Message, Note, RunFinished, SummaryRow
from ..protocol.words import counts_text, nodes_text
from ..text import duration, field_text, log_line, ranges
from .painted import Line, Weight
from .summary import (
    SCREEN_CAPS,
    Caps,
    Selection,
    busy_percent,
    failure_body,
    failure_title,
    select,
    table_lines,
    times,
    totals_lines,
)
from .writer import AppendLog

MAX_BYTES = 1000 * 1024
"""GitHub refuses pages above 1 MiB."""
_CAPS = Caps(done=0, other=50, failures=50)
_MARKUP = re.compile(r"[^A-Za-z0-9\s.,/=+-]", re.ASCII)


class StepSummary:
    """Appends its page to the file at the end of the run."""

    def __init__(self, path: str) -> None:
        self._log = AppendLog(path, lambda _: "")
        self._deck = "gpudeck"

    def show(self, message: Message) -> None:
        if isinstance(message, DeckOpened):
            self._deck = message.deck + (" (SIM: simulated GPUs)" if message.simulated else "")
        elif isinstance(message, RunFinished):
            self._log.write(page(self._deck, message))

    def close(self) -> None:
        self._log.close()


def page(deck: str, finished: RunFinished) -> str:
    """GitHub's Markdown, at most 1,000 KiB."""
    taken: list[str] = []
    size = 0
    for part in _parts(deck, finished):
        size += len(part.encode("utf-8", "replace"))
        if size > MAX_BYTES:
            return "".join(taken) + "\n\n… the rest is in deck.log\n"
        taken.append(part)
    return "".join(taken)


def _parts(deck: str, finished: RunFinished) -> Iterator[str]:
    chosen = select(finished.rows, _CAPS)
    yield f"### {_literal(deck)}: exit {finished.exit_code}\n\n{counts_text(finished.counts)}\n\n"
    busy = (f"gpu {gpu} {share:.0f} % busy" for gpu, share in busy_percent(finished))
    yield f"{', '.join([*times(finished), *busy])}\n\n"
    if finished.why:
        yield f"{_literal(finished.why)}\n\n"
    yield from _table(chosen)
    for row in chosen.failures:
        yield _details(row)


def _table(chosen: Selection) -> Iterator[str]:
    rows = [*chosen.failures, *chosen.other]
    if rows:
        place = "node" if any(row.nodes for row in rows) else "gpu"
        yield f"| task | state | attempts | {place} | time | reason |\n|---|---|---:|---|---:|---|\n"
    for row in rows:
        spent = duration(row.duration_s) if row.duration_s is not None else ""
        cells = row.task, row.state, str(row.attempts), nodes_text(row.nodes) or ranges(row.gpus), spent, row.reason
        yield f"| {' | '.join(map(_literal, cells))} |\n"
    yield "\n"
    for count, kind in chosen.hidden:
        yield f"… and {count:,} more {kind}: all in deck.log\n\n"


def _details(row: SummaryRow) -> str:
    lines = "\n".join(_literal(log_line(text)) for text in row.digest)
    title = _literal(failure_title(row))
    return f"<details><summary>{title}</summary>\n\n<pre>{lines}</pre>\n\n</details>\n\n"


def _literal(text: str) -> str:
    """Text that is shown as it is: every sign that Markdown or HTML may act on becomes a character reference."""
    return _MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", field_text(text))


MAX_ANNOTATIONS = 10
"""GitHub shows ten errors a step."""


def for_runner(message: Message, lines: list[Line]) -> Iterator[Line]:
    """Lines as they stand on a runner's stream, and commands among them."""
    yield from map(harmless, lines)
    if isinstance(message, Note) and message.level != "info":
        yield harmless(command(message.level, message.text, title="gpudeck"))


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
