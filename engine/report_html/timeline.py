"""GPUs over time as SVG: a lane for each GPU, with rows inside where attempts share it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..headless.text import hhmmss, short_time, wh_text
from .data import AttemptPart, RunPart
from .markup import text

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
    label = text(f"Run {run.number}: {len(run.attempts)} attempts over {hhmmss(run.wall_s)}, GPUs from top to bottom")
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
        yield f'<text class="tick" x="{x:.1f}" y="12">{hhmmss(number * step)}</text>'


def _bar(run: RunPart, one: AttemptPart, scale: float, top: float, height: float) -> str:
    x = _LEFT + (one.start - run.start) * scale
    width = max(1.5, ((one.end or run.end) - one.start) * scale)
    kind = "runs" if one.end is None else "ok" if one.kind == "ok" else "other" if one.kind == "cancelled" else "bad"
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
        f"{hhmmss(took) if took >= 120 else short_time(took)} from {hhmmss(one.start - run.start)} on",
        wh_text(one.energy_wh) if one.energy_wh is not None else "",
    ]
    return " · ".join(filter(None, parts))
