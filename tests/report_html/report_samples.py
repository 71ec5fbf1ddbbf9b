"""Reports that are made up, and a look at what HTML says."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from gpudeck.engine.attempts.gpu_history import GpuHistory
from gpudeck.engine.report_html.data import AttemptPart, CurvesPart, FailurePart, MetricsPart, Report, RunPart, TaskPart
from gpudeck.engine.results.overlay import Drawn
from gpudeck.engine.results.table import Cell, Column, Table

EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"'&\x1b[31m\x07\x00\u202e\udcff"
_VOID = {"meta", "input", "br"}


@dataclass
class Cells:
    """A row: its first words, and what each cell is sorted by."""

    words: list[str] = field(default_factory=list[str])
    values: list[str | None] = field(default_factory=list["str | None"])


class Page(HTMLParser):
    """Fails where tags do not match. Rows of the table of tasks by name; texts of what has a class or an id."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.heads: list[str] = []
        self.rows: dict[str, Cells] = {}
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._table = ""
        self._row = Cells()
        self.feed(document)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = given.get("id") or ""
        elif tag == "tr":
            self._row = Cells()
        elif tag in ("td", "th") and self._table == "tasks":
            self._row.words.append("")
            self._row.values.append(given.get("data-v"))
        elif tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open
        assert self._open.pop() == tag
        if tag == "tr" and self._table == "tasks":
            if "thead" in self._open:
                self.heads = self._row.words
            else:
                self.rows[self._row.words[0]] = self._row

    def handle_data(self, data: str) -> None:
        if self.scripts and self._open and self._open[-1] == "script":
            self.scripts[-1] += data
            return
        self.text += data
        if self._row.words:
            self._row.words[-1] += data

    def value(self, task: str, head: str) -> float | None:
        """What a cell of the table of tasks is sorted by."""
        found = self.rows[task].values[self.heads.index(head)]
        return None if found is None else float(found)


def report(count: int = 3, *, word: str = "train", points: int = 20, reason: str = "exit 1") -> Report:
    """So many tasks on two GPUs, every third of them failed, with *word* in everything that comes from outside."""
    attempts = [_attempt(f"{word}-{place}", place, points, reason) for place in range(count)]
    failures = [one for one in attempts if one.kind != "ok"]
    line = [(1.0, 0.5), (2.0, float("nan")), (3.0, 0.25)]
    table = Table((word,), (Column(word, word, "max"),), [((word,), (Cell((0.5,)),))])
    return Report(
        deck=word,
        file=f"/{word}/tasks.toml",
        host=word,
        commits=[word],
        made=1.7e9,
        version="1",
        under_way=False,
        warnings=[word],
        counts={"succeeded": count - len(failures), "failed": len(failures)},
        runs=[RunPart(1, 1.7e9, 1.7e9 + 60 * count, False, attempts, (0, 1))],
        tasks=[_task(one, word) for one in attempts],
        metrics=[word],
        failures=[FailurePart([one.task], 1, reason, word, f"/{word}", [word] * 20) for one in failures[:100]],
        failed=len(failures),
        tables=[MetricsPart(word, table)],
        curves=[CurvesPart(word, "step", [Drawn(word, (word, word), line, (line, line))], 1, word)],
    )


def _attempt(name: str, place: int, points: int, reason: str) -> AttemptPart:
    start, failed = 1.7e9 + 60 * (place // 2), place % 3 == 2
    seconds = [float(point + 1) for point in range(points)]
    steps = [float(point % 97) for point in range(points)]
    history = GpuHistory(seconds, list(steps), [20_000 + point % 7_000 for point in range(points)], list(steps))
    kind, why = ("exit", reason) if failed else ("ok", "ok")
    return AttemptPart(name, 1, 1, start, start + 60, kind, why, (place % 2,), 5.0, 300.0, 87.5, 20_480.0, history)


def _task(one: AttemptPart, word: str) -> TaskPart:
    state = "succeeded" if one.kind == "ok" else "failed"
    return TaskPart(
        one.task, state, (word,), one.reason, 60.0, 1, one.gpus, 20_480.0, 87.5, 5.0, {word: 0.123456789}, {word: 0.1}
    )
