"""A task's row in words and glyphs: what each column of the table says of it. Pure; knows no widget and no colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ...engine.protocol.states import (
    ACTIVE,
    DONE,
    FAILED,
    YET_TO_START,
    given_text,
    is_pending,
    reason_text,
    shown_state,
)
from ...engine.protocol.wire import TaskRow
from ...engine.protocol.words import job_text, nodes_text
from ...engine.text import measured
from .format import (
    about,
    bar,
    clean,
    clock,
    cut,
    cut_middle,
    duration,
    fit,
    percent,
    ranges,
    sparkline,
    width_of,
)

Tone = Literal["plain", "strong", "muted", "faint", "running", "good", "bad", "warn", "rest", "metric"]
"""What a piece of text is, for whoever gives it a colour."""
Piece = tuple[str, Tone]
Cell = tuple[Piece, ...]

SPARK_CELLS = 8
METRIC_NAME_CELLS = 10
_NOTHING: Cell = ()


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown."""

    glyph: str
    tone: Tone
    rank: int
    """For sorting: what needs eyes comes first."""


_STRANGE = Look("?", "muted", 10)

LOOKS: Mapping[str, Look] = {
    "running": Look("●", "running", 0),
    "starting": Look("◔", "running", 0),
    "stopping": Look("◕", "warn", 0),
    "closing": Look("◕", "running", 0),
    "failed": Look("✗", "bad", 1),
    "unknown": Look("?", "bad", 2),
    "backoff": Look("↻", "warn", 3),
    "blocked": Look("⊘", "warn", 4),
    "cancelled": Look("–", "warn", 5),
    "pruned": Look("✂", "warn", 5),
    "pending": Look("◔", "plain", 6),
    "queued": Look("○", "plain", 6),
    "waiting": Look("◌", "muted", 7),
    "succeeded": Look("✓", "good", 8),
    "cached": Look("=", "good", 9),
}

FLAGS: Mapping[str, tuple[str, str]] = {
    "held": ("‖", "held"),
    "changed": ("≠", "changed"),
    "stale": ("↺", "stale"),
    "gone": ("∅", "gone from the file"),
    "left_out": ("∉", "left out"),
}
"""Mark and words of each flag of a row."""


def look(state: str) -> Look:
    return LOOKS.get(state, _STRANGE)


def flags(row: TaskRow) -> list[str]:
    """Names of its flags."""
    if not (row.held or row.changed or row.stale or row.gone or row.left_out):
        return []
    return [name for name in FLAGS if getattr(row, name)]


def flag_words(row: TaskRow) -> str:
    """ "held, gone from the file"."""
    return ", ".join(FLAGS[name][1] for name in flags(row))


@dataclass(frozen=True, slots=True)
class Moment:
    """What a cell depends on beside its row."""

    now_s: float
    """Seconds since the epoch."""
    sparks: bool = True
    """Whether there is room for what the row's metric has been; not where no row has any of it."""


_CELLS: Mapping[str, Callable[[TaskRow, int, Moment], Cell]] = {
    "state": lambda row, width, _: state_cell(row, width),
    "name": lambda row, width, _: ((cut_middle(clean(row.name), width), _name_tone(row)),),
    "flags": lambda row, width, _: (("".join(FLAGS[name][0] for name in flags(row))[:width], "warn"),),
    "progress": lambda row, width, _: progress_cell(row, width),
    "time": lambda row, _, moment: ((time_text(row, moment.now_s), _tone(row)),),
    "eta": lambda row, _, moment: eta_cell(row, moment.now_s),
    "gpu": lambda row, width, _: ((cut(gpu_text(row), width), _tone(row)),),
    "node": lambda row, width, _: ((cut_middle(node_text(row), width), _tone(row)),),
    "job": lambda row, width, _: ((cut(clean(row.job), width), "muted"),),
    "metric": lambda row, width, moment: metric_cell(row, width, sparks=moment.sparks),
    "reason": lambda row, width, moment: reason_cell(row, width, moment.now_s),
}


def cell(column: str, row: TaskRow, width: int, moment: Moment) -> Cell:
    """At most *width* cells, not padded."""
    if column in _CELLS:
        return _CELLS[column](row, width, moment)
    return ((cut(own_text(column, row), width), "muted"),)


def _tone(row: TaskRow) -> Tone:
    return "plain" if row.state in ACTIVE else "muted"


def _name_tone(row: TaskRow) -> Tone:
    if row.left_out or row.gone:
        return "faint"
    if row.state in ACTIVE:
        return "strong"
    return "muted" if row.state in DONE else "plain"


def state_cell(row: TaskRow, width: int) -> Cell:
    state = shown_state(row)
    shown = look(state)
    tone: Tone = "faint" if row.left_out or row.gone else shown.tone
    if width < 4:
        return ((shown.glyph, tone),)
    word: Tone = "muted" if row.state in DONE and tone != "faint" else tone
    return (shown.glyph, tone), (" " + cut(state, width - 2), word)


def progress_cell(row: TaskRow, width: int) -> Cell:
    if row.progress is None or row.state not in ACTIVE:
        return _NOTHING
    share = percent(row.progress)
    if width < 8:
        return ((share.rjust(min(width, 4)), "running"),)
    done, rest = bar(row.progress, width - 5)
    return (done, "running"), (rest, "rest"), (share.rjust(5), "plain")


def time_text(row: TaskRow, now_s: float) -> str:
    """How long its attempt lasts, or its last one lasted; of one that has yet to start, nothing."""
    if row.state in YET_TO_START or is_pending(row):
        return ""
    if row.state in ACTIVE:
        return "" if row.started is None else duration(now_s - row.started)
    return duration(row.duration_s)


def eta_cell(row: TaskRow, now_s: float) -> Cell:
    """As the task itself tells; muted where it is what such tasks took so far. In backoff: until the next attempt."""
    if row.state == "backoff" and row.retry_at is not None and not row.held:
        return (("in " + about(row.retry_at - now_s).removeprefix("~"), "warn"),)
    if row.state not in ACTIVE or is_pending(row):
        return _NOTHING
    if row.eta_s is not None:
        return ((about(row.eta_s), "plain"),)
    if row.expected_s is None or row.started is None:
        return _NOTHING
    left_s = row.started + row.expected_s - now_s
    return ((about(left_s), "muted"),) if left_s > 0 else _NOTHING


def gpu_text(row: TaskRow) -> str:
    """ "0-3", "cpu"; before it starts "×4", how many it takes, where that is more than one."""
    waits = row.state in YET_TO_START
    if row.gpus and not waits:
        return ranges(row.gpus)
    if row.attempt and not waits:
        return "cpu" if row.on_cpu or not row.needs_gpus else ""
    return f"×{row.needs_gpus}" if row.needs_gpus > 1 else ""


def gpu_words(row: TaskRow) -> str:
    """The same where no title says that these are GPUs: "GPU 0-3", "cpu", "takes 4 GPUs"; of one on a cluster its job
    and its nodes."""
    if row.job:
        return clean(job_text(row.job, row.nodes))
    text = gpu_text(row)
    if text.startswith("×"):
        return f"takes {row.needs_gpus} GPUs"
    return f"GPU {text}" if row.gpus and text else text


def node_text(row: TaskRow) -> str:
    """ "node[1-2]"."""
    return clean(nodes_text(row.nodes))


def metric(row: TaskRow) -> tuple[str, float] | None:
    """The one that the table shows: the first that the task has named; its best, where the file says which that is."""
    first = next(iter(row.metrics), None)
    return None if first is None else (first, row.score(first))


def metric_cell(row: TaskRow, width: int, *, sparks: bool) -> Cell:
    found = metric(row)
    if found is None or row.state in YET_TO_START:
        return _NOTHING
    name, value = clean(found[0]), measured(found[1])
    spark_cells = SPARK_CELLS if sparks and width >= SPARK_CELLS + 10 else 0
    text_cells = width - spark_cells - bool(spark_cells)
    name_cells = min(METRIC_NAME_CELLS, text_cells - len(value) - 1)
    name = cut(name, name_cells) if name_cells > 3 else ""
    value = fit(value, text_cells - width_of(name), right=True)
    pieces: list[Piece] = [(name, "muted"), (value, "plain" if row.state in ACTIVE else "muted")]
    if spark_cells and len(row.curve) > 1:
        pieces.append((" " + sparkline(row.curve, spark_cells), "metric"))
    return tuple(pieces)


def reason_cell(row: TaskRow, width: int, now_s: float) -> Cell:
    """What is flagged, and why it ended so or waits."""
    why = clean(why_text(row, now_s))
    flagged = flag_words(row)
    tone: Tone = "bad" if row.state in FAILED else "muted"
    if not flagged:
        return ((_cut_why(row, why, width), tone),)
    flagged = cut(flagged + ("  " if why else ""), width)
    return (flagged, "warn"), (_cut_why(row, why, width - width_of(flagged)), tone)


def _cut_why(row: TaskRow, why: str, width: int) -> str:
    """Of what a cluster has not begun the expected start stays whole before all: "~26 Nov 14:05…"."""
    begins = row.pending.partition(", ")[0]
    return cut(why.removeprefix("begins ") if row.pending and width_of(begins) > width else why, width)


def why_text(row: TaskRow, now_s: float) -> str:
    """On which rungs it is, why it is pending or its newest attempt ended so, with which values it goes, when the next
    one begins."""
    return "; ".join(
        filter(None, (rung_text(row), row.pending, reason_text(row), given_text(row), again_text(row, now_s)))
    )


def rung_text(row: TaskRow) -> str:
    """ "rung 2 of 3", of on_timeout "timeout rung 1 of 2"; "" for the task as written."""
    rungs = (("rung", row.rung, row.rungs), ("timeout rung", row.timeout_rung, row.timeout_rungs))
    return ", ".join(
        f"{word} {rung}" + (f" of {number}" if rung <= number else "") for word, rung, number in rungs if rung
    )


def again_text(row: TaskRow, now_s: float) -> str:
    """Of one in backoff: "again at 14:02:05"."""
    if row.state != "backoff" or row.held or row.retry_at is None:
        return ""
    return f"again at {clock(row.retry_at, now_s, seconds=True)}"


_OWN: Mapping[str, Callable[[TaskRow], str]] = {
    "attempt": lambda row: str(row.attempt or ""),
    "entry": lambda row: clean(row.entry),
    "round": lambda row: str(row.round),
    "group": lambda row: clean(row.group),
    "priority": lambda row: str(row.priority or ""),
    "tags": lambda row: clean(" ".join(row.tags)),
    "params": lambda row: clean(" ".join(f"{key}={value}" for key, value in row.params.items())),
}


def own_text(column: str, row: TaskRow) -> str:
    """Columns that say what the task file says."""
    return _OWN[column](row)


def plain_text(column: str, row: TaskRow, now_s: float) -> str:
    """A cell for other programs: uncut, without bars."""
    match column:
        case "state":
            return " ".join([shown_state(row), *(name.replace("_", " ") for name in flags(row))])
        case "progress":
            return "" if row.progress is None else percent(row.progress)
        case "metric":
            return " ".join(f"{clean(name)}={measured(row.score(name))}" for name in row.metrics)
        case "reason":
            return "; ".join(map(clean, filter(None, (rung_text(row), row.pending, row.reason, given_text(row)))))
        case "name":
            return clean(row.name)
        case _:
            return "".join(text for text, _ in cell(column, row, 1000, Moment(now_s)))
