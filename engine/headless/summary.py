"""What stands at the end: a table of the tasks, each failure with its last lines, and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..protocol.messages import RunFinished, SummaryRow
from ..protocol.states import DONE, FAILED
from ..protocol.words import counts_text
from ..text import beside, columns_of, duration, field_text, wh_text
from .lines import ended_at, event
from .painted import Line, Tone, Weight, digest_lines


@dataclass(frozen=True, slots=True)
class Caps:
    """How many are shown of each kind; None: all."""

    done: int | None = 50
    """Succeeded and cached tasks."""
    other: int | None = 20
    """Cancelled, pruned, blocked, waiting, … ones."""
    failures: int | None = 100


SCREEN_CAPS = Caps()
NO_CAPS = Caps(None, None, None)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of a run by what the user wants of them, cut to the caps."""

    done: Sequence[SummaryRow]
    other: Sequence[SummaryRow]
    failures: Sequence[SummaryRow]
    hidden: tuple[tuple[int, str], ...]
    """How many rows of which kind are left out."""


def select(rows: Iterable[SummaryRow], caps: Caps) -> Selection:
    done: list[SummaryRow] = []
    other: list[SummaryRow] = []
    failures: list[SummaryRow] = []
    for row in rows:
        (failures if row.state in FAILED else done if row.state in DONE else other).append(row)
    kinds = (done, caps.done, "done"), (other, caps.other, "not run to their end"), (failures, caps.failures, "failed")
    hidden = tuple((len(kind) - cap, word) for kind, cap, word in kinds if cap is not None and len(kind) > cap)
    return Selection(done[: caps.done], other[: caps.other], failures[: caps.failures], hidden)


def summary_lines(finished: RunFinished, caps: Caps = SCREEN_CAPS, *, simulated: bool = False) -> Iterator[Line]:
    chosen = select(finished.rows, caps)
    if finished.rows:
        yield Line("")
        yield from table_lines(chosen, simulated=simulated)
    for row in chosen.failures:
        yield from failure_lines(row)
    yield from totals_lines(finished, simulated=simulated)


def table_lines(chosen: Selection, *, simulated: bool = False) -> Iterator[Line]:
    """What failed stands last, nearest to the prompt. With -q nothing that is done or untouched is listed."""
    rows = [*chosen.done, *chosen.other, *chosen.failures]
    vital = Weight.VITAL if chosen.failures else Weight.NORMAL
    title = "node" if any(row.nodes for row in rows) else "gpu"
    cells = [("task", f"{'state':<9}", "attempts", f"{title:<7}", f"{'time':>8}", "reason")]
    head, *lines = columns_of([*cells, *(_cells(row, simulated) for row in rows)], right=(2, 4))
    yield Line(head, vital, "bold")
    for row, text in zip(rows, lines, strict=True):
        yield Line(text, Weight.VITAL if row.state in FAILED else Weight.NORMAL, _state_tone(row.state))
    for count, kind in chosen.hidden:
        yield Line(f"… and {count:,} more {kind}: all in deck.log", tone="dim")


def _place(row: SummaryRow, simulated: bool) -> str:
    """Of the last attempt."""
    if row.duration_s is None or (row.job and not row.nodes):
        return "-"
    return ended_at(row, simulated=simulated).removeprefix("gpu ")


def _cells(row: SummaryRow, simulated: bool) -> tuple[str, ...]:
    spent = duration(row.duration_s) if row.duration_s is not None else "-"
    texts = row.task, row.state, str(row.attempts), _place(row, simulated), spent, beside(row.state, row.reason)
    return tuple(map(field_text, texts))


def _state_tone(state: str) -> Tone:
    if state in FAILED:
        return "bad"
    return {"succeeded": "good", "cached": "dim"}.get(state, "warn")  # pyright: ignore[reportReturnType]


def failure_title(row: SummaryRow) -> str:
    attempt = f"attempt {row.attempts}" if row.attempts else ""
    return "  ".join(field_text(part) for part in (row.state, row.task, attempt, row.reason) if part)


def failure_lines(row: SummaryRow) -> Iterator[Line]:
    yield Line("", Weight.VITAL)
    yield Line(failure_title(row), Weight.VITAL, "bad")
    yield from failure_body(row)


def failure_body(row: SummaryRow) -> Iterator[Line]:
    if row.log:
        yield Line(f"  {field_text(row.log)}", Weight.VITAL)
    yield from digest_lines(row.digest)


def totals_lines(finished: RunFinished, *, simulated: bool = False) -> Iterator[Line]:
    yield Line("", Weight.VITAL)
    if finished.gpu_busy_s and finished.wall_s > 0:
        busy = (f"{gpu}: {share:.0f} %" for gpu, share in busy_percent(finished))
        yield Line(event(finished.wall_s, "deck", "busy", "SIM" if simulated else "gpu", *busy), Weight.VITAL)
    later = "goes on once the file gives more" if finished.spent else "goes on at the next start"
    ends = (finished.why, "" if finished.ended else later, f"exit {finished.exit_code}")
    tone: Tone = "good" if finished.exit_code == 0 else "bad"
    text = event(finished.wall_s, "deck", "end", counts_text(finished.counts), *times(finished), *ends)
    yield Line(text, Weight.VITAL, tone)


def busy_percent(finished: RunFinished) -> list[tuple[int, float]]:
    return [(gpu, 100 * busy_s / finished.wall_s) for gpu, busy_s in sorted(finished.gpu_busy_s.items())]


def times(finished: RunFinished) -> Iterator[str]:
    """Wall time and the sum of the attempts' times, and, where something ran, the one over the other and the energy."""
    yield f"wall {duration(finished.wall_s)}"
    yield f"tasks {duration(finished.task_s)}"
    if finished.wall_s > 0 and finished.task_s > 0:
        yield f"speed-up {finished.task_s / finished.wall_s:.1f}x"
    if finished.energy_wh is not None:
        yield wh_text(finished.energy_wh)
