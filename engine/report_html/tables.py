"""The tables of a report: tasks, metrics by params, runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..counting import measured
from ..headless.text import hhmmss, mib_text, ranges, wh_text
from ..results.table_formats import decimals_for
from ..results.tabulate import Cell, Table
from .data import MetricsPart, Report, RunPart, TaskPart
from .markup import DASH, badge, cell, figure, stamp, text

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
    caption = "Tasks in the order of the file; a head sorts by its column"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Table of tasks"><table id="tasks"><caption>{caption}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _sortable(head: str, kind: str = "") -> str:
    return f'<th scope="col" aria-sort="none" class="{kind}"><button type="button">{text(head, 120)}</button></th>'


def _row(task: TaskPart, metrics: Sequence[str], decimals: dict[str, int | None]) -> str:
    took = None if task.duration_s is None else hhmmss(task.duration_s)
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
    decimals = {name: _decimals(table, name) for name in {column.metric for column in table.columns}}
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
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(part.title)}"><table><caption>'
        f"{text(part.title, 300)}</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _decimals(table: Table, metric: str) -> int | None:
    places = [place for place, column in enumerate(table.columns) if column.metric == metric]
    cells = [row[1][place] for row in table.rows for place in places]
    means = [one.mean for one in cells if one.mean is not None]
    return decimals_for(means, [one.std for one in cells if one.std is not None])


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
            figure(hhmmss(run.wall_s) + (" so far" if run.lasts else ""), run.wall_s),
            figure(f"{len(run.attempts):,}", len(run.attempts)),
            figure(hhmmss(run.task_s), run.task_s),
            figure(None if gain is None else f"{gain:.1f}×", gain),
            figure(text(told), mean),
            figure(None if energy is None else wh_text(energy), energy),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Runs"><table><caption>Runs of the deck</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
