"""The live block at the foot of a terminal: how far the deck is, a line for each GPU. Pure: status in, lines out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..protocol.messages import GpuLine, RunningTask, Status
from .lines import done_count, status_fields, where
from .painted import Line, Tone, cell_width, fit
from .text import eta_text, field_text, hhmmss, mib_text

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
    eta = eta_text(status.eta_s, status.unmeasured) or f"{hhmmss(status.at)} so far"
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
    spent = hhmmss(task.elapsed_s)
    if task.expected_s:
        meter = bar(task.elapsed_s / task.expected_s, 10, unicode=frame.unicode)
        spent = f"{spent} / {hhmmss(task.expected_s)}  {meter}"
    more = f" +{others}" if others else ""
    tail = f"  {spent:<31}  {util}".rstrip()
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
