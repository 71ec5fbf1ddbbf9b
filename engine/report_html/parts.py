"""The parts of the page: tables, the timeline, curves of GPUs, as HTML and SVG. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby

from ..attempts.gpu_history import GpuHistory
from ..logs.curves import Point
from ..results.overlay import x_text
from ..results.table import Cell, decimals_for
from ..text import duration, measured, mib_text, printable, ranges, wh_text
from .data import AttemptPart, CurvesPart, MetricsPart, Report, RunPart, TaskPart

DASH = "–"
STATE_SIGNS = {
    "succeeded": "✓", "cached": "=", "failed": "✗", "running": "▶", "starting": "▶", "stopping": "■", "closing": "■",
    "blocked": "⊘", "cancelled": "∅", "pruned": "✂", "unknown": "?",
}  # fmt: skip
"""Colour is not the only sign of a state."""


def text(raw: str, most: int = 2000) -> str:
    """As it may stand in an element or in quotes: one line, controls shown as escapes."""
    shown = printable(raw[:most]) + ("…" if len(raw) > most else "")
    return escape(shown, quote=True)


def badge(state: str, flags: tuple[str, ...] = ()) -> str:
    sign = STATE_SIGNS.get(state, "·")
    more = "".join(f' <span class="flag">{text(flag)}</span>' for flag in flags)
    return f'<span class="state {text(state)}"><span aria-hidden="true">{sign}</span> {text(state)}</span>{more}'


def cell(shown: str, value: float | str | None = None, kind: str = "") -> str:
    """*shown* is HTML already; *value* is what it is sorted by; *kind* its class: n number, r reason."""
    kind = f' class="{kind}"' if kind else ""
    sort = "" if value is None else f' data-v="{text(str(value))}"'
    return f"<td{kind}{sort}>{shown}</td>"


def figure(shown: str | None, value: float | None) -> str:
    """A cell with a number; one that is not known sorts last."""
    return cell(DASH if value is None or shown is None else shown, value, "n")


def stamp(wall: float) -> str:
    """A local time, told to machines with its offset."""
    local = time.localtime(wall)
    offset = time.strftime("%z", local)
    machine = time.strftime("%Y-%m-%dT%H:%M:%S", local) + f"{offset[:3]}:{offset[3:]}"
    return f'<time datetime="{machine}">{time.strftime("%Y-%m-%d %H:%M:%S", local)}</time>'


_HEADS = ("task", "state", "reason")
_FIGURES = ("time", "attempts", "GPU", "peak memory", "use", "energy")


def tasks_table(report: Report) -> str:
    decimals = {
        name: decimals_for([task.metrics[name] for task in report.tasks if name in task.metrics], ())
        for name in report.metrics
    }
    heads = "".join(
        [*(_sortable(head) for head in _HEADS), *(_sortable(head, "n") for head in (*_FIGURES, *report.metrics))]
    )
    rows = "".join(_row(task, report.metrics, decimals) for task in report.tasks)
    caption = (
        "Tasks in the order of the file. Figures are of the newest attempt that succeeded, else of the newest, in "
        "whatever run. A head sorts by its column"
    )
    return _table("Table of tasks", caption, heads, rows, ' id="tasks"')


def scrolled(label: str, content: str) -> str:
    """What may be wider than the page."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _table(label: str, caption: str, heads: str, rows: str, more: str = "") -> str:
    head = f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
    return scrolled(label, f"<table{more}>{head}<tbody>{rows}</tbody></table>")


def _sortable(head: str, kind: str = "") -> str:
    return f'<th scope="col" aria-sort="none" class="{kind}"><button type="button">{text(head, 120)}</button></th>'


def _row(task: TaskPart, metrics: Sequence[str], decimals: dict[str, int | None]) -> str:
    took = None if task.duration_s is None else duration(task.duration_s)
    peak = None if task.peak_mib is None else mib_text(task.peak_mib)
    use = None if task.mean_util_percent is None else f"{task.mean_util_percent:.0f} %"
    energy = None if task.energy_wh is None else wh_text(task.energy_wh)
    cells = [
        f'<th scope="row" data-v="{text(task.name)}">{text(task.name, 300)}</th>',
        cell(badge(task.state, task.flags), task.state),
        cell(text(task.reason, 300), task.reason[:80] or None, "r"),
        figure(took, task.duration_s),
        figure(str(task.attempts), task.attempts),
        cell(ranges(task.gpus) or DASH, task.gpus[0] if task.gpus else None, "n"),
        figure(peak, task.peak_mib),
        figure(use, task.mean_util_percent),
        figure(energy, task.energy_wh),
    ]
    for name in metrics:
        value = task.metrics.get(name)
        shown = None if value is None else measured(value, decimals[name])
        if name in task.last:
            shown = f'{shown} <small class="quiet">last {measured(task.last[name], decimals[name])}</small>'
        cells.append(figure(shown, value))
    return f'<tr data-state="{text(task.state)}">{"".join(cells)}</tr>'


def metrics_table(part: MetricsPart) -> str:
    table = part.table
    best = table.marked()
    decimals = table.decimals()
    heads = "".join(
        [*(_sortable(head) for head in table.heads), *(_sortable(column.head, "n") for column in table.columns)]
    )
    rows: list[str] = []
    for place, (texts, cells) in enumerate(table.rows):
        first = "".join(f'<th scope="row" data-v="{text(word)}">{text(word, 300)}</th>' for word in texts)
        more = (
            _metric(one, decimals[table.columns[column].metric], best=(place, column) in best)
            for column, one in enumerate(cells)
        )
        rows.append(f"<tr>{first}{''.join(more)}</tr>")
    return _table(text(part.title), text(part.title, 300), heads, "".join(rows))


def _metric(one: Cell, decimals: int | None, *, best: bool) -> str:
    if one.mean is None:
        return figure(None, None)
    shown = measured(one.mean, decimals) + (f" ± {measured(one.std, decimals)}" if one.std is not None else "")
    return figure(f"<strong>{shown}</strong>" if best else shown, one.mean)


def runs_table(runs: Sequence[RunPart]) -> str:
    heads = ("run", "began", "wall", "attempts", "tasks' time", "speed-up", "GPUs busy", "energy")
    rows: list[str] = []
    for run in runs:
        busy = run.busy_percent()
        mean = sum(busy.values()) / len(busy) if busy else None
        told = ", ".join(f"{gpu}: {share:.0f} %" for gpu, share in busy.items())
        gain, energy = run.speed_up, run.energy_wh
        cells = [
            f'<th scope="row">{run.number}</th>',
            cell(stamp(run.start), run.start),
            figure(duration(run.wall_s) + (" so far" if run.lasts else ""), run.wall_s),
            figure(f"{len(run.attempts):,}", len(run.attempts)),
            figure(duration(run.task_s), run.task_s),
            figure(None if gain is None else f"{gain:.1f}×", gain),
            figure(text(told), mean),
            figure(None if energy is None else wh_text(energy), energy),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return _table("Runs", "Runs of the deck", head, "".join(rows))


WIDTH = 1000
_LEFT = 64
_TOP = 22
_LANE = 26
_LEAST_ROW = 9
_MOST_ROWS = 12
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_LETTER = 5.6


def timeline(run: RunPart) -> str:
    lanes = list(_lanes(run))
    heights = [max(_LANE, _LEAST_ROW * len(rows)) for _, rows in lanes]
    height = _TOP + sum(height + 4 for height in heights) + 4
    scale = (WIDTH - _LEFT - 4) / max(run.wall_s, 0.001)
    label = text(f"Run {run.number}: {len(run.attempts)} attempts over {duration(run.wall_s)}, GPUs from top to bottom")
    parts = [f'<svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">']
    parts += _axis(run, scale, height)
    top = float(_TOP)
    for (name, rows), lane in zip(lanes, heights, strict=True):
        parts.append(f'<rect class="lane" x="{_LEFT}" y="{top:g}" width="{WIDTH - _LEFT - 4}" height="{lane}"/>')
        parts.append(f'<text class="name" x="{_LEFT - 6}" y="{top + lane / 2 + 4:g}">{text(name)}</text>')
        each = lane / max(1, len(rows))
        for place, row in enumerate(rows):
            parts += (_bar(run, one, scale, top + place * each, each) for one in row)
        top += lane + 4
    return "".join([*parts, "</svg>"])


def _lanes(run: RunPart) -> Iterator[tuple[str, list[list[AttemptPart]]]]:
    for gpu in run.gpus:
        yield f"GPU {gpu}", _rows([one for one in run.attempts if gpu in one.gpus], run.end)
    on_cpu = [one for one in run.attempts if not one.gpus]
    if on_cpu:
        yield "CPU", _rows(on_cpu, run.end)


def _rows(attempts: Sequence[AttemptPart], now: float) -> list[list[AttemptPart]]:
    """Beside each other where they overlap; more than fit lie over each other in the last row."""
    rows: list[list[AttemptPart]] = []
    until: list[float] = []
    for one in sorted(attempts, key=lambda attempt: attempt.start):
        free = next((place for place, end in enumerate(until) if end <= one.start + 0.001), None)
        if free is None and len(rows) < _MOST_ROWS:
            rows.append([])
            until.append(0.0)
            free = len(rows) - 1
        place = free if free is not None else len(rows) - 1
        rows[place].append(one)
        until[place] = one.end or now
    return rows


def _axis(run: RunPart, scale: float, height: float) -> Iterator[str]:
    step = next((step for step in _STEPS_S if run.wall_s / step <= 8), 86400 * (1 + int(run.wall_s / 86400 / 8)))
    for number in range(int(run.wall_s / step) + 1):
        x = _LEFT + number * step * scale
        yield f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="12">{duration(number * step)}</text>'


_KINDS = {"ok": "ok", "cancelled": "other", "pruned": "other"}


def _bar(run: RunPart, one: AttemptPart, scale: float, top: float, height: float) -> str:
    x = _LEFT + (one.start - run.start) * scale
    width = max(1.5, ((one.end or run.end) - one.start) * scale)
    kind = "runs" if one.end is None else _KINDS.get(one.kind, "bad")
    sign = "✗ " if kind == "bad" else ""
    room = int((width - 6) / _LETTER)
    name = f"{sign}{one.task}"
    shown = name if len(name) <= room else f"{name[: room - 1]}…" if room > 3 else sign.strip() if room >= 1 else ""
    word = ""
    if shown and height >= 12:
        word = f'<text class="bar" x="{x + 3:.1f}" y="{top + height / 2 + 3.5:.1f}">{text(shown)}</text>'
    shape = f'x="{x:.1f}" y="{top + 1:.1f}" width="{width:.1f}" height="{height - 2:.1f}" rx="2"'
    return f'<g class="{kind}"><title>{text(_told(run, one))}</title><rect {shape}/>{word}</g>'


def _told(run: RunPart, one: AttemptPart) -> str:
    took = (one.end or run.end) - one.start
    parts = [
        one.named,
        one.reason,
        f"GPU {', '.join(map(str, one.gpus))}" if one.gpus else "CPU",
        f"{duration(took)} from {duration(one.start - run.start)} on",
        _energy(one),
    ]
    return " · ".join(filter(None, parts))


MOST_CURVES = 400
_POINTS_IN_ALL = 24_000
"""Of all pictures together, so that the file stays small."""
_WIDTH = 240
_STRIP = 30
_GAP = 16

Values = Sequence[float | None]


def curves(attempts: Sequence[AttemptPart]) -> str:
    """Of attempts with a history: those that failed or last first, then the longest."""
    known = [one for one in attempts if one.history is not None and len(one.history.at_s) > 1]
    if not known:
        return '<p class="quiet">No attempt on a GPU lasted for two readings, a second apart.</p>'
    chosen = sorted(known, key=lambda one: (one.kind == "ok", one.start - (one.end or one.start)))[:MOST_CURVES]
    most = max(24, min(160, _POINTS_IN_ALL // len(chosen)))
    left_out = len(known) - len(chosen)
    more = f'<p class="quiet">{left_out:,} more, shorter and successful ones, are left out.</p>' if left_out else ""
    order = sorted(chosen, key=lambda one: (one.task, one.number))
    return f'<div class="curves">{"".join(_picture(one, most) for one in order)}</div>{more}'


def _picture(one: AttemptPart, most: int) -> str:
    history = one.history
    assert history is not None
    place = f"GPU {', '.join(map(str, one.gpus))}" if one.gpus else ""
    parts = (place, "" if one.end else "runs", duration(history.at_s[-1]), _energy(one))
    facts = " · ".join(filter(None, parts))
    strips = "".join(_strips(history, most))
    height = 3 * (_STRIP + _GAP)
    label = text(f"GPU use, memory and power of {one.named} over {duration(history.at_s[-1])}")
    kind = "" if one.kind in ("ok", "") else f" <em>{text(one.reason, 80)}</em>"
    return (
        f"<figure><figcaption><b>{text(one.task, 120)}</b> attempt {one.number}{kind}<br><small>{text(facts)}</small>"
        f'</figcaption><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{strips}</svg></figure>'
    )


def _energy(one: AttemptPart) -> str:
    return "" if one.energy_wh is None else wh_text(one.energy_wh)


def _strips(history: GpuHistory, most: int) -> Iterator[str]:
    end_s = history.at_s[-1] or 1.0
    strips: tuple[tuple[str, str, Values, Callable[[float], str], float | None], ...] = (
        ("u", "use", history.util_percent, lambda value: f"{value:.0f} %", 100.0),
        ("m", "memory", history.memory_mib, mib_text, None),
        ("p", "power", history.power_w, lambda value: f"{value:.0f} W", None),
    )
    for place, (kind, name, values, shown, top) in enumerate(strips):
        known = [value for value in values if value is not None]
        base = place * (_STRIP + _GAP) + _GAP + _STRIP
        if not known:
            yield f'<text x="0" y="{base - _STRIP - 4}">{name}: not told</text>'
            continue
        peak, mean = max(known), sum(known) / len(known)
        scale = _STRIP / (top or 1.1 * peak or 1.0)
        told = f"{name}: mean {shown(mean)}, peak {shown(peak)}"
        path = _path([(at / end_s * _WIDTH, value) for at, value in zip(history.at_s, values, strict=False)], most)
        drawn = "".join(f"{'L' if joined else 'M'}{x:.0f} {base - value * scale:.0f}" for x, value, joined in path)
        yield (
            f'<g class="{kind}"><text x="0" y="{base - _STRIP - 4}">{text(told)}</text>'
            f'<path class="base" d="M0 {base}H{_WIDTH}"/><path d="{drawn}"/></g>'
        )


def _path(points: Sequence[tuple[float, float | None]], most: int) -> Iterator[tuple[float, float, bool]]:
    """At most so many, each the highest of its neighbours; gaps stay gaps."""
    each = -(-len(points) // most)
    joined = False
    for start in range(0, len(points), each):
        known = [(x, value) for x, value in points[start : start + each] if value is not None]
        if not known:
            joined = False
            continue
        x, value = max(known, key=lambda point: point[1])
        yield x, value, joined
        joined = True


_WIDE, _HIGH = 480, 220
_MARGIN = 14
_HUES = 7
_DASHES = ("", "6 3", "2 2", "8 2 2 2")
"""Lines of one colour differ in these."""


def overlay(part: CurvesPart) -> str:
    """One metric, its lines over each other, and what they are."""
    points = [point for line in part.lines for point in line.all_points() if _finite(point)]
    if not points:
        return ""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)

    def height(value: float) -> float:
        return _MARGIN + (high - min(max(value, low), high)) / ((high - low) or 1.0) * (_HIGH - 2 * _MARGIN)

    def at(point: Point) -> str:
        return f"{(point[0] - left) / ((right - left) or 1.0) * _WIDE:.1f} {height(point[1]):.1f}"

    scale = "".join(
        f'<path class="base" d="M0 {height(value):.1f}H{_WIDE}"/>'
        f'<text x="0" y="{height(value) - 3:.1f}">{measured(value)}</text>'
        for value in dict.fromkeys((high, (low + high) / 2, low))
    )
    drawn = list[str]()
    names = list[str]()
    for place, line in enumerate(part.lines):
        kind = f"hue{place % _HUES}"
        dash = _DASHES[place // _HUES % len(_DASHES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        if line.band is not None:
            for edge in _edges(*line.band):
                drawn.insert(0, f'<polygon class="{kind} band" points="{" ".join(map(at, edge))}"/>')
        path = "".join(f"{'M' if new else 'L'}{at(point)}" for point, new in _runs(line.points))
        drawn.append(f'<path class="{kind}"{dashed} d="{path}"><title>{text(line.label, 200)}</title></path>')
        sample = f'<svg viewBox="0 0 24 8" aria-hidden="true"><path class="{kind}"{dashed} d="M0 4H24"/></svg>'
        runs = f" ({len(line.tasks)})" if len(line.tasks) > 1 else ""
        names.append(f"<li>{sample} {text(line.label, 120)}{runs} <b>{measured(line.points[-1][1])}</b></li>")
    ends = f"over {part.axis} {x_text(part.axis, left)} to {x_text(part.axis, right)}"
    more = f'<p class="quiet">{part.left_out:,} more are left out.</p>' if part.left_out else ""
    of = f" {text(part.of, 120)}" if part.of else ""
    return (
        f"<figure><figcaption><b>{text(part.metric, 120)}</b>{of}<br><small>{text(ends)}</small></figcaption>"
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{text(f"{part.metric} over {part.axis}")}">'
        f"{scale}{''.join(drawn)}</svg><ul>{''.join(names)}</ul>{more}</figure>"
    )


def _finite(point: Point) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1])


def _edges(low: Sequence[Point], high: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Around each part of a band that no gap interrupts."""
    for known, pairs in groupby(zip(low, high, strict=True), lambda pair: _finite(pair[0]) and _finite(pair[1])):
        if known:
            below, above = zip(*pairs, strict=True)
            yield (*above, *reversed(below))


def _runs(points: Sequence[Point]) -> Iterator[tuple[Point, bool]]:
    """Those that are numbers, and whether a gap lies before each."""
    gap = True
    for point in points:
        if _finite(point):
            yield point, gap
        gap = not _finite(point)
