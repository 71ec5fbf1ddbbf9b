"""What attempts used of their GPUs over time: a small picture each, three strips above each other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..headless.text import hhmmss, mib_text, wh_text
from ..logs.gpu_history import GpuHistory
from .data import AttemptPart
from .markup import text

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
    facts = " · ".join(filter(None, [place, "" if one.end else "runs", hhmmss(history.at_s[-1]), _energy(one)]))
    strips = "".join(strip for strip in _strips(history, most))
    height = 3 * (_STRIP + _GAP)
    label = text(f"GPU use, memory and power of {one.named} over {hhmmss(history.at_s[-1])}")
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
