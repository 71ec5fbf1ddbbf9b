"""Everything about one task as lines: what the detail page shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine.logs.told import other_command
from ...engine.protocol.states import ACTIVE, DONE, FAILED, is_pending, shown_state
from ...engine.protocol.words import nodes_text
from ..curves.charts import chart
from ..drawing.format import (
    about,
    bar,
    clean,
    clock,
    command_text,
    cut,
    duration,
    energy,
    fit,
    mib,
    percent,
    ranges,
    width_of,
)
from ..drawing.paragraphs import GAP, Line, Span, Tone, beside, field, harmless, links, paragraph
from ..drawing.view import FLAGS, gpu_words, look, rung_text
from .gathering import Known, is_changed

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
        *field("energy", _energy(end, simulated=known.left.simulated), width),
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


def _energy(end: Mapping[str, Any], *, simulated: bool) -> str:
    """ "1.2 Wh, mean 310 W"; of simulated GPUs with SIM."""
    energy_wh, power_w = end.get("energy_wh"), end.get("mean_power_w")
    if energy_wh is None or power_w is None:
        return ""
    return f"{energy(energy_wh)}, mean {power_w:.0f} W" + ("  SIM" if simulated else "")


def _whole_percent(value: float) -> str:
    return f"{value:.0f}%"


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
    flags = ", ".join(FLAGS[flag][1] for flag in FLAGS if getattr(row, flag))
    tone = _LOOK_TONES.get(shown.tone, "plain")
    first = [Span(f"{shown.glyph} {state}", tone), Span("  "), Span(cut(clean(row.name), width - 16), "strong")]
    lines: list[Line] = [(*first, Span(f"  {flags}", "warn")) if flags else tuple(first)]
    if row.reason and row.state not in DONE and row.state != "blocked":  # of what blocks it more is told below
        before = "before: " if row.state in ACTIVE | {"queued", "waiting"} else ""
        reason_tone: Tone = "bad" if row.state in FAILED else "muted"
        lines += paragraph(before + row.reason, width, reason_tone, indent=2)
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
    facts.append(f"on_oom {rung_text(row)}" if row.rung else "")
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
    if row.state == "backoff" and row.retry_at is not None and not row.held:
        facts.append(f"again at {clock(row.retry_at, now_s, seconds=True)}")
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
    now = "  (as the file says now)" if is_changed(task) else ""
    return [
        *_section(f"Command{now}", paragraph(command_text(task["command"]), width, indent=2)),
        *_section("Environment", _environment(task["env"], width)),
        *_section("Task", _task(task, width)),
        *_section("Other tasks", _others(task, width)),
    ]


def _environment(env: Mapping[str, str | None], width: int) -> list[Line]:
    texts = [f"{name}={value}" if value is not None else f"{name} is unset" for name, value in env.items()]
    return [line for text in texts for line in paragraph(text, width, indent=2)]


def _task(task: Mapping[str, Any], width: int) -> list[Line]:
    own, counts = task["priority"], task["effective_priority"]
    priority = f"{own}, counts as {counts} because of what waits for it" if own != counts else str(own or "")
    rounds = f"{task['round']}" + (f" of {task['group']}" if task["group"] else "") if task["round"] else ""
    fields = (
        ("entry", task["entry"] + (f"  (line {task['line']})" if task["line"] else "")),
        ("params", "  ".join(f"{key}={value}" for key, value in task["params"].items())),
        ("tags", " ".join(task["tags"])),
        ("GPUs", str(task["gpus"])),
        ("GPU memory", task.get("gpu_memory", "")),
        ("cwd", task["cwd"]),
        ("python", task["python"]),
        ("round", rounds),
        ("priority", priority),
        ("retries", f"{task['retries_used']} of {task['retries']} used" if task["retries"] else ""),
        ("retried", _retried(task)),
        ("outputs", ", ".join(task["outputs"])),
    )
    return [line for name, text in fields for line in field(name, text, width)]


def _retried(task: Mapping[str, Any]) -> str:
    """How it was asked for again by hand."""
    parts = [
        "from the beginning" if task["retried_fresh"] else "",
        *(f"{name}={value}" for name, value in task["retried_env"].items()),
        f"not on GPU {', '.join(task['retried_not_on'])}" if task["retried_not_on"] else "",
    ]
    return "  ".join(filter(None, parts))


def _others(task: Mapping[str, Any], width: int) -> list[Line]:
    """What the file says where that is a pattern, and the tasks that it means."""
    names: Sequence[str] = task.get("waits_on", ())
    lines: list[Line] = []
    for word in ("needs", "after"):
        patterns = [pattern for pattern in task[word] if pattern not in names]
        lines += field(word, ", ".join(patterns), width, tone="muted")
    return [*lines, *links("waits on", names, width), *links("needed by", task["needed_by"], width)]
