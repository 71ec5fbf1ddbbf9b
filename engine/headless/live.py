"""The live display: lines scroll by above a block that is drawn anew in place.

No thread, no alternate screen, and the cursor is never hidden: an engine that is killed leaves the terminal as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..ports import Clock
from ..protocol.messages import DeckOpened, GpuLine, Message, RunFinished, RunningTask, Status
from ..text import cell_width, duration, eta_text, field_text, fit, mib_text
from .lines import done_count, status_fields, where
from .narrate import Narrator, as_text
from .painted import Line, Tone
from .writer import StreamWriter

MAX_ROWS = 8
"""Lines about GPUs and CPU tasks."""
_WIDE_COLUMNS = 100
"""From here on there is room for memory."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the block is drawn."""

    columns: int
    rows: int
    unicode: bool = True
    simulated: bool = False


def block_lines(deck: str, status: Status, frame: Frame) -> list[Line]:
    """At most frame.rows - 1 lines, each narrower than frame.columns."""
    rows = list(_rows(status, frame))
    lines = [_overall(deck, status, frame), _counts(status, frame), *_cut(rows, min(MAX_ROWS, frame.rows - 4), frame)]
    if status.waiting_why:
        lines.append(Line(f"waits: {field_text(status.waiting_why[0])}", tone="dim"))
    width = max(1, frame.columns - 1)
    return [Line(fit(line.text, width).rstrip(), tone=line.tone) for line in lines[: max(1, frame.rows - 1)]]


def bar(part: float, width: int, *, unicode: bool = True) -> str:
    """A bar of *width* columns, *part* (0 to 1) of it full."""
    full, empty = ("━", "─") if unicode else ("#", "-")
    filled = round(min(1.0, max(0.0, part)) * width)
    return full * filled + empty * (width - filled)


def _overall(deck: str, status: Status, frame: Frame) -> Line:
    counts = status.counts
    part = done_count(counts) / counts.total if counts.total else 0.0
    eta = eta_text(status.eta_s, status.unmeasured) or f"{duration(status.at)} so far"
    name = field_text(deck) + (" SIM" if frame.simulated else "")
    name = fit(name, min(cell_width(name), max(8, frame.columns // 3)))
    room = frame.columns - 1 - cell_width(name) - len(eta) - 4 - 7
    return Line(f"{name}  {bar(part, max(4, room), unicode=frame.unicode)}  {int(100 * part):>3} %  {eta}", tone="bold")


def _counts(status: Status, frame: Frame) -> Line:
    tone: Tone = "warn" if status.counts.failed or status.counts.unknown else "plain"
    return Line("  ".join(status_fields(status, simulated=frame.simulated)), tone=tone)


def _rows(status: Status, frame: Frame) -> Iterator[Line]:
    running = {task.task: task for task in status.running}
    for gpu in status.gpus:
        yield _gpu_row(gpu, [running[name] for name in gpu.tasks if name in running], frame)
    for task in status.running:
        if not task.gpus:
            yield Line(_task_row(where((), task.nodes), task, 0, "", frame))


def _gpu_row(gpu: GpuLine, tasks: list[RunningTask], frame: Frame) -> Line:
    place = where((gpu.index,), simulated=frame.simulated)
    util = f"util {gpu.util_percent:>3} %" if gpu.util_percent is not None else "util     -"
    if frame.columns >= _WIDE_COLUMNS and gpu.used_mib is not None:
        util += f"  {mib_text(gpu.used_mib):>9}"
    if not tasks:
        note = field_text(gpu.note or ", ".join(gpu.tasks) or "idle")
        return Line(f"{place:<7}{note}", tone="warn" if gpu.note else "dim")
    return Line(_task_row(place, tasks[0], len(tasks) - 1, util, frame))


def _task_row(place: str, task: RunningTask, others: int, util: str, frame: Frame) -> str:
    spent = f"{duration(task.elapsed_s):>6}"
    if task.expected_s:
        meter = bar(task.elapsed_s / task.expected_s, 10, unicode=frame.unicode)
        spent = f"{spent} / {duration(task.expected_s):<6}  {meter}"
    more = f" +{others}" if others else ""
    tail = f"  {spent:<27}  {util}".rstrip()
    room = max(8, frame.columns - 1 - 7 - len(more) - len(tail))
    return f"{_place(place)}{fit(field_text(task.task), room)}{more}{tail}"


def _place(place: str) -> str:
    """In seven columns; of a longer name its end, which tells nodes apart."""
    return f"{place:<7}" if len(place) < 7 else f"…{place[-5:]} "


def _cut(rows: list[Line], most: int, frame: Frame) -> list[Line]:
    if len(rows) <= max(0, most):
        return rows
    if most < 2:
        return []
    dots = "…" if frame.unicode else "..."
    return [*rows[: most - 1], Line(f"{dots} and {len(rows) - most + 1:,} more", tone="dim")]


REDRAW_S = 0.25
"""Least time between two drawings; lines wait for the next one."""
STATUS_PERIOD_S = 1.0
"""How often a `Status` is wanted: each moves the clocks and lets waiting lines out."""


class LiveView:
    """Lines and a block on a terminal."""

    def __init__(
        self,
        writer: StreamWriter,
        narrator: Narrator,
        *,
        colour: bool,
        clock: Clock,
        size: Callable[[], os.terminal_size],
    ) -> None:
        self._writer = writer
        self._narrator = narrator
        self._colour = colour
        self._clock = clock
        self._size = size
        self._unicode = writer.encoding.lower().replace("-", "").startswith("utf")
        self._deck = ""
        self._simulated = False
        self._status: Status | None = None
        self._lines: list[Line] = []
        self._block: list[Line] = []
        """As it stands on the terminal."""
        self._drawn_at = float("-inf")

    def show(self, message: Message) -> None:
        self._lines += self._narrator.lines(message)
        if isinstance(message, DeckOpened):
            self._deck, self._simulated = message.deck, message.simulated
        elif isinstance(message, Status):
            self._status = message
        elif isinstance(message, RunFinished):
            self._status = None
        now_s = self._clock.now().boot_s
        if now_s - self._drawn_at >= REDRAW_S or isinstance(message, RunFinished):
            self._drawn_at = now_s
            self._draw()

    def close(self) -> None:
        """What waits is shown, the block goes."""
        self._status = None
        self._draw()
        self._writer.close()

    def _draw(self) -> None:
        if self._writer.behind and not self._lines and self._status:
            return
        size = self._size()
        block = self._next_block(size)
        if not self._lines and block == self._block:
            return
        text = self._erase(size.columns) + as_text([*self._lines, *block], colour=self._colour)
        self._lines, self._block = [], block
        self._writer.write(text)

    def _next_block(self, size: os.terminal_size) -> list[Line]:
        if self._status is None:
            return []
        frame = Frame(size.columns, size.lines, self._unicode, self._simulated)
        return block_lines(self._deck, self._status, frame)

    def _erase(self, columns: int) -> str:
        """Takes the block off. A terminal that became narrower has folded its lines."""
        rows = sum(max(1, -(-cell_width(line.text) // max(1, columns))) for line in self._block)
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""


def terminal_size(fd: int) -> os.terminal_size:
    """80 x 24 where the terminal does not say."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return os.terminal_size((80, 24))
    return os.terminal_size((size.columns or 80, size.lines or 24))
