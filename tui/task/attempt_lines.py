"""The attempts of a task, and what the one that is looked at left behind, as lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...engine.logs.ran import other_command
from ...engine.protocol.states import is_pending, shown_state
from ...engine.protocol.words import nodes_text
from ..drawing.format import clean, duration, energy, fit, mib, ranges, width_of
from ..drawing.paragraphs import Line, Span, Tone, field, harmless, paragraph
from .known import Known, is_changed

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
        told: tuple[str, Tone] = ("ok", "good") if ok else (each["reason"] + exit_text, "bad")
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
    end = known.left.end or {}
    ran = other_command(known.left.command, known.details["command"]) if is_changed(known.details) else ""
    lines = [
        *field("ran", ran, width),
        *field("git", known.left.git, width),
        *field("snapshot", known.left.snapshot, width),
        *field("host", known.left.host, width),
        *field("ended by", f"signal {end['signal']}" if end.get("signal") else "", width),
        *field("GPU memory", _pair(end, "peak_mib", "mean_mib", mib), width),
        *field("GPU use", _pair(end, "peak_util_percent", "mean_util_percent", _whole_percent), width),
        *field("energy", _energy(end), width),
    ]
    for each in [*known.details["attempts"], *filter(None, [known.details.get("running")])]:
        if each["number"] == known.attempt:
            lines += field("profile", _profile(each), width)
            lines += field("on_oom", _rung(each), width)
            lines += field("job", clean(each.get("job", "")), width)
            lines += field("nodes", clean(nodes_text(each.get("nodes", ()))), width)
            lines += field("script", each.get("script", ""), width)
            paths = dict.fromkeys((each["log"], each["err"]))
            lines += [line for at, path in enumerate(paths) for line in field("" if at else "log", path, width)]
    if known.left.digest:
        lines += [(), *(line for text in known.left.digest for line in paragraph(text, width, indent=2))]
    return lines


def _profile(attempt: Mapping[str, Any]) -> str:
    """ "24GiB: --bs 16"; "" where none of them is for its GPUs."""
    profile, *changes = attempt.get("gpu_profile") or ("",)
    return ": ".join(filter(None, (profile, "  ".join(changes))))


def _rung(attempt: Mapping[str, Any]) -> str:
    """ "rung 2: --bs 16"; "" for the command as written."""
    changes = "  ".join(attempt.get("rung_changes", ()))
    return f"rung {attempt['rung']}" + (f": {changes}" if changes else "") if attempt.get("rung") else ""


def _pair(end: Mapping[str, Any], peak: str, mean: str, text: Callable[[float], str]) -> str:
    """ "peak 12.3 GiB, mean 10.1 GiB"."""
    parts = [f"{word} {text(end[key])}" for word, key in (("peak", peak), ("mean", mean)) if end.get(key) is not None]
    return ", ".join(parts)


def _energy(end: Mapping[str, Any]) -> str:
    """ "1.2 Wh, mean 310 W"."""
    energy_wh, power_w = end.get("energy_wh"), end.get("mean_power_w")
    if energy_wh is None or power_w is None:
        return ""
    return f"{energy(energy_wh)}, mean {power_w:.0f} W"


def _whole_percent(value: float) -> str:
    return f"{value:.0f}%"
