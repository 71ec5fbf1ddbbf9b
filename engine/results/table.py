"""Tables of results: rows and columns, mean and deviation over seeds, and their formats. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Literal

from ..errors import UsageError
from ..logs.printable import printable
from ..text import measured
from .difference import Difference
from .results import Result
from .settings import one_spelling

Best = Literal["column", "row", "none"]
Place = tuple[int, int]
"""Row and column of a cell."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cell:
    """The values of one metric in one place."""

    values: tuple[float, ...] = ()
    spread: bool = False
    """It is a mean, with a deviation where there are several values."""
    counts: bool = True
    """It may be the best one."""

    @property
    def mean(self) -> float | None:
        return fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Of a sample (n - 1); None: of fewer than two values."""
        if not self.spread or len(self.values) < 2:
            return None
        return stdev(self.values) if all(map(math.isfinite, self.values)) else math.nan


@dataclass(frozen=True, slots=True)
class Column:
    """A column of cells."""

    head: str
    metric: str
    best: Literal["max", "min", "last"] = "last"


@dataclass(slots=True)
class Table:
    """What is printed: first text columns, then cells."""

    heads: tuple[str, ...]
    """Of the text columns."""
    columns: tuple[Column, ...]
    rows: list[tuple[tuple[str, ...], tuple[Cell, ...]]] = field(
        default_factory=list[tuple[tuple[str, ...], tuple[Cell, ...]]]
    )
    best: Best = "column"
    counted: bool = False
    """The last text column tells how many tasks a row has."""
    empty: list[str] = field(default_factory=list[str])
    """Settings of which no task counts, and what became of these: "lr=3 (2 pruned)"."""

    def marked(self) -> set[Place]:
        """The best values, ties included."""
        return {place for best, _ in self._contests() for place in best}

    def as_good(self) -> set[Place]:
        """Means that are not the best and that nobody can tell apart from it, for all that their values say."""
        found: set[Place] = set()
        for (winner, *_), others in self._contests():
            best = self._cell(winner).values
            for place in others:
                difference = Difference(best, self._cell(place).values, paired=False)
                if self._cell(place).spread and difference.interval is not None and not difference.differs:
                    found.add(place)
        return found

    def _contests(self) -> Iterator[tuple[list[Place], list[Place]]]:
        """Where values differ in a line in which one is to be marked: the best ones, and the others."""
        for line in self._lines():
            for how in ("max", "min"):
                means = {
                    place: mean
                    for place in line
                    if self.columns[place[1]].best == how
                    and self._cell(place).counts
                    and (mean := self._cell(place).mean) is not None
                    and math.isfinite(mean)
                }
                if len(set(means.values())) > 1:
                    winner = max(means.values()) if how == "max" else min(means.values())
                    best = [place for place, mean in means.items() if mean == winner]
                    yield best, [place for place in means if place not in best]

    def _lines(self) -> list[list[Place]]:
        """Places among which one is to be marked."""
        height, width = range(len(self.rows)), range(len(self.columns))
        if self.best == "column":
            return [[(row, column) for row in height] for column in width]
        return [[(row, column) for column in width] for row in height] if self.best == "row" else []

    def _cell(self, place: Place) -> Cell:
        return self.rows[place[0]][1][place[1]]

    def decimals(self) -> dict[str, int | None]:
        """By metric, how many suit its numbers, see `decimals_for`."""
        cells: dict[str, list[Cell]] = {}
        for _, row in self.rows:
            for column, cell in zip(self.columns, row, strict=True):
                cells.setdefault(column.metric, []).append(cell)
        return {
            metric: decimals_for(
                [mean for cell in known if (mean := cell.mean) is not None],
                [std for cell in known if (std := cell.std) is not None],
            )
            for metric, known in cells.items()
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How results become a table."""

    metrics: Mapping[str, Literal["max", "min", "last"]]
    """By name, what is best."""
    over: tuple[str, ...] = ()
    """Params to average over."""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    sort: str = ""
    best: Best = "column"


def tabulate(results: Sequence[Result], layout: Layout) -> Table:
    """Raises UsageError for params or metrics that no result has, and for cells that mix different tasks."""
    results = with_one_spelling(results)
    refuse_unknown(results, (*layout.over, *layout.rows, *layout.columns))
    if layout.rows or layout.columns:
        table = _pivot(results, layout)
    elif layout.over:
        table = _averaged(results, layout)
    else:
        table = _plain(results, layout)
    table.best = layout.best
    return _sorted(table, layout.sort)


def refuse_unknown(results: Sequence[Result], names: Iterable[str]) -> None:
    """Raises UsageError for a param that no result has."""
    known = {name for result in results for name in result.params}
    for name in names:
        if name not in known:
            raise UsageError(f"{name}: no task has this in its matrix; there are {', '.join(sorted(known)) or 'none'}")


def with_one_spelling(results: Sequence[Result]) -> list[Result]:
    """Numbers that are equal are one setting, as the file writes it where one of them is the file's."""
    order = sorted(range(len(results)), key=lambda at: bool(results[at].given))
    params = dict(zip(order, one_spelling(results[at].params for at in order), strict=True))
    return [replace(result, params=params[at]) for at, result in enumerate(results)]


def varying(results: Sequence[Result]) -> list[str]:
    """Params that differ between the results, in their order."""
    names = dict.fromkeys(name for result in results for name in result.params)
    return [name for name in names if len({result.params.get(name) for result in results}) > 1]


def _plain(results: Sequence[Result], layout: Layout) -> Table:
    differing, given = varying(results), {name for result in results for name in result.given}
    params = [*differing, *sorted(given.difference(differing))]
    states = not all(result.done for result in results)
    none_done = not any(result.done for result in results)
    heads = ("task", *params, *(("state",) if states else ()))
    table = Table(heads, tuple(Column(name, name, best) for name, best in layout.metrics.items()))
    for result in results:
        texts = (result.task, *(result.params.get(name, "-") for name in params), *((result.state,) if states else ()))
        values = ((result.values[name],) if name in result.values else () for name in layout.metrics)
        table.rows.append((texts, tuple(Cell(value, counts=result.done or none_done) for value in values)))
    return table


def _averaged(results: Sequence[Result], layout: Layout) -> Table:
    """A row for each combination of the other params."""
    others = [name for name in varying(results) if name not in layout.over]
    entries = len({result.entry for result in results}) > 1
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        params = tuple(result.params.get(name, "-") for name in others)
        key = (_without(result.entry, layout.over), *params) if entries else params
        groups.setdefault(key, []).append(result)
    heads = (*(("task",) if entries else ()), *others, "n")
    table = Table(heads, tuple(Column(name, name, best) for name, best in layout.metrics.items()), counted=True)
    for key, members in groups.items():
        counted = _counted(members)
        table.rows.append(((*key, str(len(counted))), tuple(_cell(counted, name) for name in layout.metrics)))
        if not counted:
            table.empty.append(_empty(heads, key, members))
    return table


def _pivot(results: Sequence[Result], layout: Layout) -> Table:
    placed: dict[tuple[str, ...], dict[tuple[str, ...], list[Result]]] = {}
    columns: dict[tuple[str, ...], None] = {}
    for result in results:
        row = tuple(result.params.get(name, "-") for name in layout.rows)
        column = tuple(result.params.get(name, "-") for name in layout.columns)
        columns[column] = None
        placed.setdefault(row, {}).setdefault(column, []).append(result)
    empty = [
        _empty((*layout.rows, *layout.columns), (*row, *column), members)
        for row, cells in placed.items()
        for column, members in cells.items()
        if not _counted(members)
    ]
    placed = {row: {column: _counted(its) for column, its in cells.items()} for row, cells in placed.items()}
    _refuse_mixed(placed, layout)
    one = len(layout.metrics) == 1
    heads = [
        (column, Column(_head(column, name, one=one), name, best))
        for column in columns
        for name, best in layout.metrics.items()
    ]
    table = Table(layout.rows or ("",), tuple(head for _, head in heads), empty=empty)
    for row, cells in placed.items():
        found = tuple(_cell(cells.get(column, ()), head.metric) for column, head in heads)
        table.rows.append((row or ("all",), found))
    return table


def _refuse_mixed(placed: Mapping[tuple[str, ...], Mapping[tuple[str, ...], list[Result]]], layout: Layout) -> None:
    """A mean over tasks that differ in more than what the user named would mean nothing."""
    for cells in placed.values():
        for members in cells.values():
            mixed = [name for name in varying(members) if name not in layout.over]
            if mixed:
                raise UsageError(
                    f"{members[0].task} and {members[1].task} fall into one cell: they differ in {', '.join(mixed)}; "
                    f"name it in --rows, --columns or --over, or choose tasks with a selector ({mixed[0]}=…)"
                )
            if (not layout.over and len(members) > 1) or len({result.entry for result in members}) > 1:
                names = ", ".join(result.task for result in members[:_SHOWN])
                raise UsageError(f"{names} fall into one cell: choose tasks with a selector, or name --over")


def _counted(members: Iterable[Result]) -> list[Result]:
    return [result for result in members if result.counts]


def _empty(names: Sequence[str], values: Sequence[str], members: Sequence[Result]) -> str:
    setting = " ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
    return f"{setting or 'all'} ({states_text(members)})"


def states_text(results: Iterable[Result]) -> str:
    """ "2 pruned, 1 failed"."""
    return ", ".join(f"{count:,} {state}" for state, count in Counter(result.state for result in results).items())


def _head(column: tuple[str, ...], metric: str, *, one: bool) -> str:
    parts = [*column] if one and column else [*column, metric]
    return " ".join(parts)


def _cell(members: Sequence[Result], metric: str) -> Cell:
    return Cell(tuple(result.values[metric] for result in members if metric in result.values), spread=True)


def _without(entry: str, over: Sequence[str]) -> str:
    for name in over:
        entry = entry.replace(f"{{{name}}}", "*")
    return entry


def _sorted(table: Table, by: str) -> Table:
    if not by:
        return table
    name, _, order = by.partition(":")
    if order not in ("", "asc", "desc"):
        raise UsageError(f"--sort {by}: after the colon comes asc or desc")
    heads = [*table.heads, *(column.head for column in table.columns)]
    if name not in heads:
        raise UsageError(f"--sort {name}: no column is called so; there are {', '.join(heads)}")
    place = heads.index(name)

    def key(row: tuple[tuple[str, ...], tuple[Cell, ...]]) -> tuple[int, float, str]:
        texts, cells = row
        value: float | str | None = texts[place] if place < len(texts) else cells[place - len(texts)].mean
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return (1, 0.0, value)
        if value is None or math.isnan(value):
            return (2, 0.0, "")
        return (0, value, "")

    known = [row for row in table.rows if key(row)[0] < 2]
    unknown = [row for row in table.rows if key(row)[0] == 2]
    table.rows = [*sorted(known, key=key, reverse=order == "desc"), *unknown]
    return table


MISSING = "-"


def markdown(table: Table) -> str:
    """Aligned, so that it reads well as it is. Best values are bold."""
    heads = [_cell_text(head) for head in (*table.heads, *(column.head for column in table.columns))]
    rows = _filled(table, bold=lambda text: f"**{text}**", escape=_cell_text, plus_minus=" ± ", as_good=" ≈")
    widths = [max([3, *(len(row[place]) for row in [heads, *rows])]) for place in range(len(heads))]
    texts = len(table.heads)

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if place < texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if place < texts else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return "\n".join([line(heads), line(rule), *(line(row) for row in rows)])


def latex(table: Table) -> str:
    """A tabular in booktabs' style."""
    heads = [_latex_text(head) for head in (*table.heads, *(column.head for column in table.columns))]
    rows = _filled(
        table, bold=lambda text: f"\\textbf{{{text}}}", escape=_latex_text, plus_minus=" $\\pm$ ", as_good=r" $\approx$"
    )
    kinds = "l" * len(table.heads) + "r" * len(table.columns)
    lines = [" & ".join(row) + r" \\" for row in rows]
    return "\n".join(
        [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule", *lines,
         r"\bottomrule", r"\end{tabular}"]
    )  # fmt: skip


def separated(table: Table, delimiter: str) -> str:
    """CSV or TSV: numbers as exact as they are known; with means a column each for mean, deviation and number."""
    spread = any(cell.spread for _, cells in table.rows for cell in cells)
    heads = [*table.heads]
    for column in table.columns:
        heads += [f"{column.head} mean", f"{column.head} std", f"{column.head} n"] if spread else [column.head]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(heads)
    for texts, cells in table.rows:
        row: list[object] = ["\t".join(map(printable, text.split("\t"))) for text in texts]
        for cell in cells:
            row += [_exact(cell.mean), _exact(cell.std), len(cell.values)] if spread else [_exact(cell.mean)]
        writer.writerow(row)
    return out.getvalue().rstrip("\n")


def as_json(table: Table) -> str:
    """A list of rows; null is unknown or not a number."""
    rows: list[dict[str, object]] = []
    for texts, cells in table.rows:
        shown = len(table.heads) - table.counted
        row: dict[str, object] = dict(zip(table.heads[:shown], texts[:shown], strict=True))
        metrics = {column.head: _json_cell(cell) for column, cell in zip(table.columns, cells, strict=True)}
        rows.append({**row, "metrics": metrics})
    return json.dumps(rows, indent=2, ensure_ascii=False)


FORMATS: dict[str, Callable[[Table], str]] = {
    "md": markdown,
    "latex": latex,
    "csv": lambda table: separated(table, ","),
    "tsv": lambda table: separated(table, "\t"),
    "json": as_json,
}


def decimals_for(means: Iterable[float], deviations: Iterable[float]) -> int | None:
    """Decimals that suit numbers of one metric: two digits of the usual deviation, else four digits of the largest
    number. None: they are best written with an exponent."""
    known = [abs(mean) for mean in means if math.isfinite(mean)]
    spreads = sorted(std for std in deviations if std > 0 and math.isfinite(std))
    largest = max(known, default=0.0)
    if largest >= 1e6 or 0 < largest < 1e-3:
        return None
    if spreads:
        return max(0, min(6, 1 - math.floor(math.log10(spreads[len(spreads) // 2]))))
    digits = max(0, min(4, 3 - math.floor(math.log10(largest)))) if largest else 0
    return next((fewer for fewer in range(digits) if all(mean == round(mean, fewer) for mean in known)), digits)


def _filled(
    table: Table, *, bold: Callable[[str], str], escape: Callable[[str], str], plus_minus: str, as_good: str
) -> list[list[str]]:
    marked, undecided = table.marked(), table.as_good()
    by_metric = table.decimals()
    full = _full_count(table)
    rows: list[list[str]] = []
    for place, (texts, cells) in enumerate(table.rows):
        row, of_row = [escape(text) for text in texts], int(texts[-1]) if table.counted else full
        for column, cell in enumerate(cells):
            text = _shown(cell, by_metric[table.columns[column].metric], plus_minus, of_row)
            at = (place, column)
            row.append(bold(text) if at in marked else f"{text}{as_good}" if at in undecided else text)
        rows.append(row)
    return rows


def _full_count(table: Table) -> int:
    """How many values the fullest cell has; a cell of fewer says so."""
    return max((len(cell.values) for _, cells in table.rows for cell in cells if cell.spread), default=1)


def _shown(cell: Cell, decimals: int | None, plus_minus: str, full: int) -> str:
    mean = cell.mean
    if mean is None:
        return MISSING
    std = cell.std
    text = measured(mean, decimals) + (f"{plus_minus}{measured(std, decimals)}" if std is not None else "")
    return f"{text} (n={len(cell.values)})" if cell.spread and len(cell.values) < full else text


def _exact(value: float | None) -> str:
    if value is None:
        return ""
    return repr(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(value)


def _json_cell(cell: Cell) -> object:
    mean = finite(cell.mean)
    return {"mean": mean, "std": finite(cell.std), "n": len(cell.values)} if cell.spread else mean


def finite(value: float | None) -> float | None:
    """None for what JSON has no number for."""
    return value if value is not None and math.isfinite(value) else None


def _cell_text(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "\\<")


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in printable(text))
