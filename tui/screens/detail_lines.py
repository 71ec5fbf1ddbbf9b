"""What is known of the task whose page is open, from the engine and from the files of its attempts, and as lines."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from textual.widget import Widget
from textual.worker import Worker

from ...engine.attempts.record import (
    energy_text,
    git_text,
    is_simulated,
    otherwise_text,
    ran_other,
    read_record,
)
from ...engine.logs.curves import Curve
from ...engine.logs.digest import digest
from ...engine.logs.files import curves_beside
from ...engine.protocol.describe import change_fields, env_lines, task_fields
from ...engine.protocol.states import ACTIVE, FAILED, is_pending, reason_text, shown_state
from ...engine.protocol.wire import TaskRow
from ...engine.protocol.words import nodes_text
from ...engine.text import command_text
from ..background import BackgroundReader
from ..curve_reader import curves_of
from ..curves import chart
from ..drawing.format import about, bar, clean, clock, cut, duration, fit, mib, percent, ranges, width_of
from ..drawing.paragraphs import GAP, Line, Span, Tone, beside, field, harmless, links, paragraph
from ..drawing.view import again_text, flag_words, gpu_words, look, rung_text

_LINES = 20
KEPT = 50
"""Of so many attempts."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where one attempt's files are."""

    json: str
    out: str
    err: str
    ended: bool
    failed: bool = False
    """The end of what it wrote is of interest."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they say. Empty where they say nothing."""

    digest: tuple[str, ...]
    record: Mapping[str, Any]
    """attempt-N.json."""

    @property
    def end(self) -> Mapping[str, Any] | None:
        """Its last entry; None: nothing has been written of an end."""
        end = self.record.get("end")
        return cast("Mapping[str, Any]", end) if isinstance(end, dict) else None


def read(files: Files) -> Left:
    """Blocks. Raises nothing."""
    return Left(digest(files.err, files.out, _LINES) if files.failed else (), read_record(files.json))


class Attempts:
    """At first the newest one is looked at, and stays to be when another one begins."""

    def __init__(self) -> None:
        self.details: Mapping[str, Any] | None = None
        """What the engine answers to `show`; None: it has not yet."""
        self.wanted = 0
        """Of one that is not the newest its number; 0: the newest, whichever that is."""

    @property
    def numbers(self) -> list[int]:
        """Oldest first."""
        if self.details is None:
            return []
        running = self.details.get("running")
        return [each["number"] for each in self.details["attempts"]] + ([running["number"]] if running else [])

    @property
    def _newest(self) -> int:
        return self.numbers[-1] if self.numbers else 0

    @property
    def number(self) -> int:
        """Of the one that is looked at; 0: there is none."""
        numbers = self.numbers
        return self.wanted if self.wanted in numbers else self._newest

    def forget(self) -> None:
        """It is about another task."""
        self.details, self.wanted = None, 0

    def look_at(self, number: int) -> None:
        self.wanted = 0 if number == self._newest else number

    @property
    def files(self) -> Files | None:
        """Of the one that is looked at."""
        found = self._entry
        if found is None:
            return None
        entry, lasts = found
        failed = not lasts and entry["kind"] != "ok"
        return Files(entry.get("json", ""), entry["log"], entry["err"], ended=not lasts, failed=failed)

    def curve_order(self, newest_started: float | None) -> Mapping[str, Any] | None:
        """What `curve_reader` is to read of the one that is looked at. *newest_started*: seconds since the epoch."""
        found = self._entry
        if found is None or self.details is None:
            return None
        return order_of(self.details, *found, newest=found[0]["number"] == self._newest, started=newest_started)

    @property
    def _entry(self) -> tuple[Mapping[str, Any], bool] | None:
        """The one that is looked at, as the engine told of it, and whether it lasts."""
        details, number = self.details, self.number
        if details is None or not number:
            return None
        running = details.get("running")
        if running and running["number"] == number:
            return running, True
        return next(((each, False) for each in details["attempts"] if each["number"] == number), None)


def order_of(
    details: Mapping[str, Any], attempt: Mapping[str, Any], lasts: bool, *, newest: bool, started: float | None
) -> Mapping[str, Any]:
    """What `curve_reader` is to read of an attempt. *started*: of the newest, seconds since the epoch."""
    return {
        "kept": curves_beside(attempt["json"]) if attempt.get("json") else "",
        "out": attempt["log"],
        "err": attempt["err"],
        "metrics": [each for each in details.get("metrics", ()) if newest or not each["file"]],
        "started": attempt.get("started") or (started if newest else None) or 0.0,
        "running": lasts,
    }


@dataclass(frozen=True, slots=True)
class Known:
    """All that there is to show."""

    details: Mapping[str, Any]
    """An entry of the answer to `show`."""
    row: TaskRow
    attempt: int
    """The one that is looked at; 0: there is none yet."""
    left: Left | None = None
    """None: not read yet."""
    curves: Sequence[Curve] = ()
    reading: bool = False
    """More curves may come."""
    memory_mib: int | None = None
    """What the attempt that runs has on its GPUs now."""


_LOOKS = 5
"""So often the record of an attempt that has ended is looked for."""


class Gathering:
    """Of one task at a time."""

    def __init__(self, widget: Widget, news: Callable[[], None]) -> None:
        """Nothing is read any more when *widget* has gone. *news* is called when there is more to show."""
        self.attempts = Attempts()
        self._widget, self._news = widget, news
        self._files: BackgroundReader[Files, Left] = BackgroundReader(widget, read, news, kept=KEPT)
        self._order = ""
        """What the process that reads curves was told; "": there is none."""
        self._reading: Worker[None] | None = None
        self._curves: tuple[Curve, ...] = ()
        self._curves_of: tuple[str, int] = ("", 0)
        self._more_curves = False
        self._looks = 0

    @property
    def reads(self) -> bool:
        """A process reads curves."""
        return bool(self._order)

    def take(self, details: Mapping[str, Any]) -> None:
        """What the engine has told of the task."""
        self.attempts.details, self._looks = details, 0

    def look_at(self, attempt: int) -> None:
        self.attempts.look_at(attempt)
        self._looks = 0

    def read(self, task: str, started: float | None, *, curves: bool) -> None:
        """What the attempt that is looked at has written. *started*: of the newest attempt, seconds since the epoch.
        *curves*: somebody sees them."""
        number, files = self.attempts.number, self.attempts.files
        if files is not None and not files.ended:
            self._files.again(files)
        if self._curves_of != (task, number):
            self._curves_of, self._curves, self._more_curves = (task, number), (), bool(number)
        self._read_curves(self.attempts.curve_order(started) if curves else None)

    def look_again(self) -> None:
        """For what is written a moment after an attempt has ended; once a second."""
        files = self.attempts.files
        left = None if files is None else self._files.of(files)
        if files is not None and files.ended and left is not None and left.end is None and self._looks < _LOOKS:
            self._looks += 1
            self._files.again(files)

    def known(self, row: TaskRow, memory_mib: int | None) -> Known | None:
        """All of it. *memory_mib*: what it has on its GPUs now. None: the engine has not told of it yet."""
        if self.attempts.details is None:
            return None
        files = self.attempts.files
        return Known(
            details=self.attempts.details,
            row=row,
            attempt=self.attempts.number,
            left=None if files is None else self._files.of(files),
            curves=self._curves,
            reading=self._more_curves,
            memory_mib=memory_mib,
        )

    def rest(self) -> None:
        """Nobody sees the curves: no process reads them."""
        self._read_curves(None)

    def _read_curves(self, order: Mapping[str, Any] | None) -> None:
        """*order*: what `curve_reader` is to read; the same again changes nothing."""
        text = "" if order is None else json.dumps(order, sort_keys=True)
        if text == self._order:
            return
        self._order = text
        if self._reading is not None:
            self._reading.cancel()
        self._reading = None if order is None else self._widget.run_worker(self._take_curves(order))

    async def _take_curves(self, order: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            async for _, curves in curves_of([order]):
                self._curves = curves
                self._news()
        self._more_curves = False
        self._news()


_ALL_OF_ATTEMPT = 50
"""Cells from which an attempt's line has more than its end and its time."""


def attempts(known: Known, width: int, now_s: float) -> list[Line]:
    """A line each, the newest first."""
    found: list[Line] = []
    running = known.details.get("running")
    if running:
        elapsed = duration(now_s - running["started"])
        pending = is_pending(known.row)
        told = (shown_state(known.row), "plain" if pending else "running")
        found.append(_attempt_line(known, running, told, "" if pending else elapsed, width))
    for each in reversed(known.details["attempts"]):
        ok = each["kind"] == "ok"
        code = each["exit_code"]
        exit_text = f"  (exit {code})" if code and f"exit {code}" not in each["reason"] else ""
        good = f"ok, done as {clean(each['done_as'])}" if each.get("done_as") else "ok"
        told: tuple[str, Tone] = (good, "good") if ok else (each["reason"] + exit_text, "bad")
        found.append(_attempt_line(known, each, told, duration(each["duration_s"]), width))
    return found


def _attempt_line(known: Known, each: Mapping[str, Any], told: tuple[str, Tone], took: str, width: int) -> Line:
    """Number, what became of it, where, how long, peak memory."""
    number: int = each["number"]
    here = number == known.attempt
    where = _where(each)
    peak = mib(each["peak_mib"]) if each.get("peak_mib") else ""
    behind = took
    if width >= _ALL_OF_ATTEMPT:
        place = fit(where, max(9, min(width_of(where) + 1, width // 4)))
        behind = place + fit(took, 7, right=True) + fit(peak, 11, right=True)
    text = fit(harmless(told[0], 400), max(6, width - len(behind) - 8))
    link = ("attempt", str(number))
    return (
        Span(("▸" if here else " ") + f"{number:>3}  ", "strong" if here else "muted", link),
        Span(text, told[1], link),
        Span("  " + behind, "plain" if here else "muted", link),
    )


def _where(attempt: Mapping[str, Any]) -> str:
    """ "GPU 0-3", "node[1-2]", of one that a cluster has not begun "job 1234"."""
    if attempt.get("job"):
        return clean(nodes_text(attempt["nodes"])) or f"job {clean(attempt['job'])}"
    return f"GPU {ranges(attempt['gpus'])}" if attempt["gpus"] else "cpu"


def chosen(known: Known, width: int) -> list[Line]:
    """What the chosen one left behind."""
    if not known.attempt:
        return []
    if known.left is None:
        return [(Span("  reading …", "muted"),)]
    record, end = known.left.record, known.left.end or {}
    lines = [
        *field("ran", ran_other(record, known.details), width),
        *field("git", git_text(record.get("git")), width),
        *field("snapshot", str(record.get("snapshot") or ""), width),
        *field("host", str(record.get("host") or ""), width),
        *field("ended by", f"signal {end['signal']}" if end.get("signal") else "", width),
        *field("GPU memory", _pair(end, "peak_mib", "mean_mib", mib), width),
        *field("GPU use", _pair(end, "peak_util_percent", "mean_util_percent", "{:.0f}%".format), width),
        *field("energy", energy_text(end, simulated=is_simulated(record)), width),
        *field("with", clean(otherwise_text(record)), width),
    ]
    for each in [*known.details["attempts"], *filter(None, [known.details.get("running")])]:
        if each["number"] == known.attempt:
            for label, changes in change_fields(each):
                lines += field(label.removeprefix("gpu_"), changes, width)
            lines += field("job", clean(each.get("job", "")), width)
            lines += field("nodes", clean(nodes_text(each.get("nodes", ()))), width)
            lines += field("script", each.get("script", ""), width)
            paths = dict.fromkeys((each["log"], each["err"]))
            lines += [line for at, path in enumerate(paths) for line in field("" if at else "log", path, width)]
    if known.left.digest:
        lines += [(), *(line for text in known.left.digest for line in paragraph(text, width, indent=2))]
    return lines


def _pair(end: Mapping[str, Any], peak: str, mean: str, text: Callable[[float], str]) -> str:
    """ "peak 12.3 GiB, mean 10.1 GiB"."""
    parts = [f"{word} {text(end[key])}" for word, key in (("peak", peak), ("mean", mean)) if end.get(key) is not None]
    return ", ".join(parts)


WIDE = 120
"""Cells from which there are two columns."""
_LOOK_TONES: Mapping[str, Tone] = {"running": "running", "good": "good", "bad": "bad", "warn": "warn"}
_CHART_COLUMNS = 150
"""Cells of a column from which two charts stand beside each other."""


def lines_of(known: Known, width: int, now_s: float) -> list[Line]:
    """The page in *width* cells."""
    head = _head(known, width, now_s)
    if width < WIDE:
        return [*head, *_how(known, width, now_s), *_what(known, width)]
    left = (width - GAP) * 3 // 5
    return [*head, *beside(_how(known, left, now_s), _what(known, width - GAP - left), left)]


def _section(title: str, lines: Sequence[Line]) -> list[Line]:
    return [(), (Span(title, "title"),), *lines] if lines else []


def _head(known: Known, width: int, now_s: float) -> list[Line]:
    """Where it stands."""
    row = known.row
    state = shown_state(row)
    shown = look(state)
    flags = flag_words(row)
    tone = _LOOK_TONES.get(shown.tone, "plain")
    first = [Span(f"{shown.glyph} {state}", tone), Span("  "), Span(cut(clean(row.name), width - 16), "strong")]
    lines: list[Line] = [(*first, Span(f"  {flags}", "warn")) if flags else tuple(first)]
    if (reason := reason_text(row)) and row.state != "blocked":  # of what blocks it more is told below
        lines += paragraph(reason, width, "bad" if row.state in FAILED else "muted", indent=2)
    if facts := _facts(known, now_s):
        lines += paragraph("  ·  ".join(facts), width, "muted", indent=2)
    if row.progress is not None and row.state in ACTIVE:
        done, rest = bar(row.progress, min(60, max(4, width - 24)))
        eta = f"  {about(row.eta_s)} left" if row.eta_s is not None else ""
        lines.append((Span("  "), Span(done, "running"), Span(rest, "muted"), Span(f" {percent(row.progress)}{eta}")))
    return lines


def _facts(known: Known, now_s: float) -> list[str]:
    row, running = known.row, known.details.get("running")
    facts = [f"attempt {row.attempt}" if row.attempt else ""]
    facts.append(f"on_oom {rung_text(row)}" if row.rung else rung_text(row))
    facts.append(gpu_words(row))
    if running and is_pending(row):
        facts.append(f"submitted {clock(running['started'], now_s)}, {duration(now_s - running['started'])} ago")
    elif running and row.state in ACTIVE:
        facts.append(f"for {duration(now_s - running['started'])}, since {clock(running['started'], now_s)}")
        if row.eta_s is None and running["expected_s"]:
            facts.append(f"such tasks take {about(running['expected_s'])}")
        facts.append(f"pid {running['pid']}" if running["pid"] else "")
        facts.append("" if known.memory_mib is None else f"{mib(known.memory_mib)} on its GPUs")
    elif row.duration_s is not None:
        facts.append(f"took {duration(row.duration_s)}")
        facts.append("" if row.ended is None else f"ended {clock(row.ended, now_s)}")
    facts.append(again_text(row, now_s))
    return [fact for fact in facts if fact]


# -- how it goes ------------------------------------------------------------------------------------------------------


def _how(known: Known, width: int, now_s: float) -> list[Line]:
    waits = [line for text in known.details["waits_for"] for line in paragraph(text, width, "warn", indent=2)]
    return [
        *_section("Waits for", waits),
        *_section("Attempts", attempts(known, width, now_s)),
        *_section(f"Attempt {known.attempt}", chosen(known, width)),
        *_section("Metrics", _curves(known, width)),
    ]


def _curves(known: Known, width: int) -> list[Line]:
    if not known.curves:
        return [(Span("  reading …", "muted"),)] if known.reading and known.left is None else []
    if width < _CHART_COLUMNS:
        charts = [chart(curve, width) for curve in known.curves]
        return [line for at, lines in enumerate(charts) for line in (*([()] if at else []), *lines)]
    half = (width - GAP) // 2
    charts = [chart(curve, half) for curve in known.curves]
    found: list[Line] = []
    for at in range(0, len(charts), 2):
        found += [()] if at else []
        found += beside(charts[at], charts[at + 1] if at + 1 < len(charts) else [], half)
    return found


# -- what it is -------------------------------------------------------------------------------------------------------


def _what(known: Known, width: int) -> list[Line]:
    task = known.details
    now = "  (as the file says now)" if "changed" in task["flags"] else ""
    env = [line for text in env_lines(task["env"]) for line in paragraph(text, width, indent=2)]
    return [
        *_section(f"Command{now}", paragraph(command_text(task["command"]), width, indent=2)),
        *_section("Environment", env),
        *_section("Task", [line for label, text in task_fields(task) for line in field(label, text, width)]),
        *_section("Other tasks", _others(task, width)),
    ]


def _others(task: Mapping[str, Any], width: int) -> list[Line]:
    """What the file says where that is a pattern, and the tasks that it means."""
    names: Sequence[str] = task.get("waits_on", ())
    lines: list[Line] = []
    for word in ("needs", "after"):
        patterns = [pattern for pattern in task[word] if pattern not in names]
        lines += field(word, ", ".join(patterns), width, tone="muted")
    return [*lines, *links("waits on", names, width), *links("needed by", task["needed_by"], width)]
