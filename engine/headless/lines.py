"""One line per event: pure functions from messages to text, stable and greppable.

`[00:00:01] gpu 2  start train-sym-0.375  attempt 1  logs/train-sym-0.375/attempt-1.log`: the time since the run began,
where (`gpu 2`, `gpu 0-3`, `cpu`, `SIM 2` for a simulated GPU, `node1` or `slurm` on a cluster, `deck`, `-`), a word,
the task, then fields that two spaces part.
"""

from __future__ import annotations

import time

from ..protocol.messages import (
    Counts,
    DeckOpened,
    Note,
    Status,
    SummaryRow,
    TaskEnded,
    TaskSettled,
    TaskStarted,
    TaskSubmitted,
)
from ..protocol.words import nodes_text
from ..text import beside, duration, eta_text, field_text, hhmmss, mib_text, plural, ranges, wh_text
from .painted import Line, Tone, Weight


def where(gpus: tuple[int, ...], nodes: tuple[str, ...] = (), *, simulated: bool = False) -> str:
    if nodes:
        return field_text(nodes_text(nodes))
    if not gpus:
        return "cpu"
    return f"{'SIM' if simulated else 'gpu'} {ranges(gpus)}"


def ended_at(ended: TaskEnded | SummaryRow, *, simulated: bool = False) -> str:
    """Where an attempt ran; "-" for one that could not be started anywhere."""
    if ended.kind == "spawn error" and not ended.gpus and not ended.nodes:
        return "-"
    return where(ended.gpus, ended.nodes, simulated=simulated)


def event(at_s: float, place: str, word: str, *fields: str) -> str:
    shown = "  ".join(field_text(part) for part in fields if part)
    return f"[{hhmmss(at_s)}] {place:<5}  {word:<5} {shown}".rstrip()


def opened_lines(message: DeckOpened) -> list[Line]:
    counts = message.counts
    head = event(
        0,
        "deck",
        "open",
        message.deck,
        f"run {message.run}" + (" goes on" if message.continued else ""),
        plural(counts.total, "task") + (f" ({counts.cached:,} cached)" if counts.cached else ""),
        _slots_text(message),
        "SIM: simulated GPUs" if message.simulated else "",
        f"logs in {message.log_dir}",
        message.file,
        time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(message.wall)),
    )
    gpus = [Line(event(0, "deck", "gpu", gpu), tone="dim") for gpu in message.gpus]
    warnings = [Line(event(0, "deck", "warning", text), Weight.VITAL, "warn") for text in message.warnings]
    return [Line(head, tone="bold"), *gpus, *warnings]


def _slots_text(message: DeckOpened) -> str:
    if message.backend == "slurm":
        return f"Slurm, {plural(message.slots, 'job')} at once"
    return plural(message.slots, "slot")


def submit_line(message: TaskSubmitted) -> Line:
    job = f"job {message.job}"
    word = "adopted" if message.adopted else "submitted"
    return Line(event(message.at, "slurm", word, message.task, f"attempt {message.attempt}", job))


def start_line(message: TaskStarted, *, simulated: bool = False, verbose: bool = False) -> Line:
    text = event(
        message.at,
        where(message.gpus, message.nodes, simulated=simulated),
        "start",
        message.task,
        f"attempt {message.attempt}",
        f"job {message.job}" if message.job else "",
        f"on_oom rung {message.rung}" if message.rung else "",
        f"on_timeout rung {message.timeout_rung}" if message.timeout_rung else "",
        "resumed" if message.resumed else "",
        f"gpu_profile {message.gpu_profile}" if message.gpu_profile else "",
        message.mixed,
        f"pid {message.pid}" if verbose else "",
        message.log,
        f"$ {message.command}" if verbose and message.command else "",
    )
    return Line(text)


_ENDS: dict[str, tuple[str, Weight, Tone]] = {
    "ok": ("ok", Weight.NORMAL, "good"),
    "failed": ("fail", Weight.VITAL, "bad"),
    "lost": ("lost", Weight.VITAL, "bad"),
    "cancelled": ("cancelled", Weight.NORMAL, "warn"),
    "pruned": ("pruned", Weight.NORMAL, "warn"),
    "interrupted": ("interrupted", Weight.NORMAL, "warn"),
}


def end_line(message: TaskEnded, *, simulated: bool = False) -> Line:
    word, weight, tone = _ENDS[message.outcome]
    ok = message.outcome == "ok"
    text = event(
        message.at,
        "slurm" if message.job and not message.nodes else ended_at(message, simulated=simulated),
        word,
        message.task,
        f"attempt {message.attempt}",
        f"job {message.job}" if message.job else "",
        duration(message.duration_s),
        "" if ok else beside(word, message.reason),
        f"peak {mib_text(message.peak_mib)}" if message.peak_mib is not None else "",
        f"util {message.mean_util_percent:.0f} %" if message.mean_util_percent is not None else "",
        wh_text(message.energy_wh) if message.energy_wh is not None else "",
        _next_text(message),
        f"left running: pid {', '.join(map(str, message.left_behind))}" if message.left_behind else "",
        "" if ok else message.telling or message.err or message.log,
    )
    return Line(text, weight, tone)


def _next_text(message: TaskEnded) -> str:
    if message.next == "backoff":
        return f"retry in {duration(message.retry_in_s)}"
    return "requeued" if message.next == "queued" else ""


def settled_line(message: TaskSettled) -> Line:
    text = event(message.at, "-", message.state, message.task, message.why)
    return Line(text, tone="dim" if message.state == "cached" else "warn")


_NOTES: dict[str, tuple[Weight, Tone]] = {
    "info": (Weight.NORMAL, "plain"),
    "warning": (Weight.VITAL, "warn"),
    "error": (Weight.VITAL, "bad"),
}


def note_line(message: Note) -> Line:
    weight, tone = _NOTES[message.level]
    word = "note" if message.level == "info" else message.level
    return Line(event(message.at, "deck", word, message.text), weight, tone)


def done_count(counts: Counts) -> int:
    return counts.succeeded + counts.cached + counts.failed + counts.cancelled + counts.pruned + counts.blocked


_SHOWN_COUNTS = ("pending", "queued", "waiting", "backoff", "unknown", "failed", "blocked", "cancelled", "pruned")


def status_line(message: Status, *, simulated: bool = False) -> Line:
    fields = status_fields(message, simulated=simulated)
    eta = eta_text(message.eta_s, message.unmeasured)
    return Line(event(message.at, "deck", "status", *fields, eta), tone="dim")


def status_fields(message: Status, *, simulated: bool = False) -> tuple[str, ...]:
    """All that a status line shows but the clock: two equal ones are one piece of news."""
    counts = message.counts
    gpus = {gpu for task in message.running for gpu in task.gpus}
    nodes = dict.fromkeys(node for task in message.running for node in task.nodes)
    on = f" on {where(tuple(gpus), tuple(nodes), simulated=simulated)}" if gpus or nodes else ""
    rest = (f"{getattr(counts, name):,} {name}" for name in _SHOWN_COUNTS if getattr(counts, name))
    return (f"{done_count(counts):,}/{counts.total:,} done", f"{counts.running:,} running{on}", *rest)


def detail_fields(message: Status, *, simulated: bool = False) -> tuple[tuple[str, str, str], ...]:
    """What -v adds to a status line: why tasks wait, why GPUs are not used; place, word and text of each line."""
    reasons = (("deck", "waits", text) for text in message.waiting_why)
    gpus = ((where((gpu.index,), simulated=simulated), "note", gpu.note) for gpu in message.gpus if gpu.note)
    return (*reasons, *gpus)
