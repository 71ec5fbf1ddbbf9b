"""The whole document. Its script and style are allowed by their digests alone, so that nothing else in it can run."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from string import Template

from ..text import duration, names_text, plural, wh_text
from .data import FailurePart, Report, RunPart
from .parts import STATE_SIGNS, curves, metrics_table, overlay, runs_table, scrolled, stamp, tasks_table, text, timeline

MARK = "<!-- made by gpudeck report -->"
"""Stands in the second line: such a file may be replaced."""

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PAGE = Template("""<!doctype html>
$mark
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '$style_digest'; \
script-src '$script_digest'$live_policy; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>$style</style>
</head>
<body$live>
$body
<script>$script</script>
</body>
</html>
""")
_OLDER_RUNS = 5
"""Runs whose timeline is drawn."""


def page(report: Report, *, every_s: int = 0) -> bytes:
    """*every_s*: how often it asks whoever serves it for a newer one; 0: never."""
    style, script = _file("page.css"), _file("page.js")
    document = _PAGE.substitute(
        mark=MARK,
        style_digest=_digest(style),
        script_digest=_digest(script),
        title=f"{text(report.deck)}: report",
        style=style,
        script=script,
        body="\n".join(_body(report)),
        live=f' data-live="{every_s}"' if every_s else "",
        live_policy="; connect-src 'self'" if every_s else "",
    )
    return document.encode("utf-8", "replace")


def _body(report: Report) -> Iterator[str]:
    yield f"<header><h1>{text(report.deck, 200)}</h1>{_facts(report)}{_parts(report)}</header>"
    yield f'<main><section aria-label="Figures">{_figures(report)}</section>'
    for warning in report.warnings:
        yield f'<p class="warning"><b>Warning:</b> {text(warning)}</p>'
    yield from _timelines(report)
    if report.failed:
        yield f'<section><h2 id="failures">{plural(report.failed, "failure")}</h2>'
        yield from map(_failure, report.failures)
        if rest := report.failed - sum(len(failure.tasks) for failure in report.failures):
            yield f'<p class="quiet">{rest:,} more stand in the table below.</p>'
        yield "</section>"
    yield f'<section><h2 id="all">Tasks</h2>{_filter(report)}{tasks_table(report)}</section>'
    if report.tables:
        yield '<section><h2 id="metrics">Metrics by parameters</h2>'
        best = "The best value of a column is bold where the task file says which is better."
        yield f'<p class="quiet">Of tasks that have succeeded. {best}</p>'
        yield from map(metrics_table, report.tables)
        yield "</section>"
    if report.curves:
        yield '<section><h2 id="over-time">Curves of metrics</h2>'
        yield '<p class="quiet">Tasks that differ in a seed alone are one line: their mean ± standard deviation.</p>'
        yield f'<div class="overlays">{"".join(map(overlay, report.curves))}</div></section>'
    if _on_gpus(report):
        attempts = [attempt for run in report.runs for attempt in run.attempts]
        yield f'<section><h2 id="curves">GPUs over time</h2>{curves(attempts)}</section>'
    yield "</main>"
    yield f"<footer><p>Made by gpudeck {text(report.version)} on {stamp(report.made)}.</p></footer>"


def _parts(report: Report) -> str:
    """The way to each part that there is."""
    parts = (
        ("timeline", "Timeline", bool(report.runs)),
        ("failures", "Failures", report.failed > 0),
        ("all", "Tasks", True),
        ("metrics", "Metrics", bool(report.tables)),
        ("over-time", "Curves of metrics", bool(report.curves)),
        ("curves", "GPUs over time", _on_gpus(report)),
    )
    links = "".join(f'<a href="#{name}">{title}</a> ' for name, title, there in parts if there)
    return f'<nav aria-label="Parts">{links}</nav>'


def _on_gpus(report: Report) -> bool:
    return any(attempt.gpus for run in report.runs for attempt in run.attempts)


def _facts(report: Report) -> str:
    newest, *others = report.commits or [""]
    facts = [
        ("task file", text(report.file)),
        ("commit", text(newest) + (f" and {len(others)} more" if others else "")),
        ("host", text(report.host)),
        ("GPUs", "SIM: simulated, their use and energy are not real" if report.simulated else ""),
        ("as of", stamp(report.made) + (", while it runs" if report.under_way else "")),
    ]
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{said}</dd></div>' for name, said in facts if said)}</dl>"


def _figures(report: Report) -> str:
    total = sum(report.counts.values())
    counts = ", ".join(
        f"{STATE_SIGNS.get(state, '·')} {count:,} {text(state)}" for state, count in sorted(report.counts.items())
    )
    shown = [(f"{total:,}", "task" if total == 1 else "tasks", counts)]
    if report.runs:
        shown += _run_figures(report.runs[0])
    if len(report.runs) > 1:
        took_s = sum(run.task_s for run in report.runs)
        count = plural(sum(len(run.attempts) for run in report.runs), "attempt")
        shown.append((duration(took_s), f"of attempts in {len(report.runs):,} runs", f"{count} together"))
    if report.energy_wh is not None:
        count = sum(attempt.energy_wh is not None for run in report.runs for attempt in run.attempts)
        shown.append(
            (
                wh_text(report.energy_wh),
                "energy SIM" if report.simulated else "energy",
                f"of {plural(count, 'attempt')} of all runs, also failed ones",
            )
        )
    return (
        '<ul class="figures">'
        + "".join(f"<li><b>{value}</b> {name}<br><small>{more}</small></li>" for value, name, more in shown)
        + "</ul>"
    )


def _run_figures(run: RunPart) -> Iterator[tuple[str, str, str]]:
    yield duration(run.wall_s), f"wall of run {run.number}", f"{'lasts, ' if run.lasts else ''}from {stamp(run.start)}"
    if run.speed_up is not None:
        took = f"its {plural(len(run.attempts), 'attempt')} took {duration(run.task_s)} together"
        yield f"{run.speed_up:.1f}×", f"speed-up of run {run.number}", took
    busy = run.busy_percent()
    if busy:
        each = ", ".join(f"{gpu}: {share:.0f} %" for gpu, share in busy.items())
        yield f"{sum(busy.values()) / len(busy):.0f} %", f"GPUs busy in run {run.number}", each


def _timelines(report: Report) -> Iterator[str]:
    if not report.runs:
        yield '<p class="quiet">Nothing has run yet.</p>'
        return
    newest, *older = report.runs
    yield f'<section><h2 id="timeline">Timeline of run {newest.number}</h2>{_timeline(newest)}'
    yield (
        '<p class="quiet"><span class="key ok"></span> ok <span class="key bad"></span> ✗ failed '
        '<span class="key runs"></span> runs <span class="key other"></span> cancelled, pruned</p>'
    )
    if older:
        yield runs_table(report.runs)
    for run in older[:_OLDER_RUNS]:
        yield f"<details><summary>Timeline of run {run.number}</summary>{_timeline(run)}</details>"
    yield "</section>"


def _timeline(run: RunPart) -> str:
    return scrolled(f"Timeline of run {run.number}", timeline(run))


def _failure(failure: FailurePart) -> str:
    count, newest = len(failure.tasks), failure.tasks[0]
    attempt = f" attempt {failure.attempt}" if failure.attempt else ""
    hint = f'<p class="hint">{text(failure.hint)}</p>' if failure.hint else ""
    log = f"<p><code>{text(failure.log)}</code></p>" if failure.log else ""
    lines = "\n".join(text(line) for line in failure.lines)
    last = f'<pre tabindex="0" aria-label="Last lines">{lines}</pre>' if lines else ""
    title = f'<h3><span aria-hidden="true">✗</span> {text(newest, 300)}<small>{attempt}</small></h3>'
    others = f'<p class="quiet">and {count - 1:,} alike: {text(names_text(failure.tasks[1:]))}</p>' if count > 1 else ""
    return f"<article>{title}{others}<p>{text(failure.reason)}</p>{hint}{log}{last}</article>"


def _filter(report: Report) -> str:
    """Shown by the script, which makes it work."""
    options = "".join(f"<option>{text(state)}</option>" for state in sorted(report.counts))
    return (
        '<p id="filter" hidden><label>Filter <input type="search" id="words" placeholder="words of a row"></label> '
        f'<label>State <select id="state"><option value="">all</option>{options}</select></label> '
        '<span id="shown" role="status"></span></p>'
    )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _file(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
