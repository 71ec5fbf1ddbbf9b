"""A table as Markdown, LaTeX, CSV, TSV or JSON. Pure. What a terminal would obey in a value is left out."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence

from ..counting import measured
from ..logs.tail import printable
from .tabulate import Cell, Table

MISSING = "-"


def markdown(table: Table) -> str:
    """Aligned, so that it reads well as it is. Best values are bold."""
    heads = [_cell_text(head) for head in (*table.heads, *(column.head for column in table.columns))]
    rows = _filled(table, bold=lambda text: f"**{text}**", escape=_cell_text, plus_minus=" ± ")
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
    rows = _filled(table, bold=lambda text: f"\\textbf{{{text}}}", escape=_latex_text, plus_minus=" $\\pm$ ")
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
    table: Table, *, bold: Callable[[str], str], escape: Callable[[str], str], plus_minus: str
) -> list[list[str]]:
    marked = table.marked()
    by_metric: dict[str, int | None] = {}
    for name in {column.metric for column in table.columns}:
        places = [place for place, column in enumerate(table.columns) if column.metric == name]
        cells = [row[1][place] for row in table.rows for place in places]
        by_metric[name] = decimals_for(
            [mean for cell in cells if (mean := cell.mean) is not None],
            [std for cell in cells if (std := cell.std) is not None],
        )
    usual = _usual_count(table)
    rows: list[list[str]] = []
    for place, (texts, cells) in enumerate(table.rows):
        row = [escape(text) for text in texts]
        for column, cell in enumerate(cells):
            text = _shown(cell, by_metric[table.columns[column].metric], plus_minus, usual)
            row.append(bold(text) if (place, column) in marked else text)
        rows.append(row)
    return rows


def _usual_count(table: Table) -> int:
    """How many values most cells have; a cell of fewer says so."""
    counts = [len(cell.values) for _, cells in table.rows for cell in cells if cell.spread and cell.values]
    return max(set(counts), key=counts.count, default=1)


def _shown(cell: Cell, decimals: int | None, plus_minus: str, usual: int) -> str:
    mean = cell.mean
    if mean is None:
        return MISSING
    std = cell.std
    text = measured(mean, decimals) + (f"{plus_minus}{measured(std, decimals)}" if std is not None else "")
    return f"{text} (n={len(cell.values)})" if cell.spread and len(cell.values) != usual else text


def _exact(value: float | None) -> str:
    if value is None:
        return ""
    return repr(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 1e15 else repr(value)


def _json_cell(cell: Cell) -> object:
    mean = _finite(cell.mean)
    return {"mean": mean, "std": _finite(cell.std), "n": len(cell.values)} if cell.spread else mean


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _cell_text(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "\\<")


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in printable(text))
