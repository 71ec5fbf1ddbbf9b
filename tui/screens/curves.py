"""Curves of several tasks over each other: means over seeds, values under a cursor, differences to a baseline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.worker import Worker

from ...engine.attempts.record import given_in, read_record
from ...engine.logs.curves import Curve, line_that_keeps
from ...engine.protocol.states import ENDED
from ...engine.results.overlay import Drawn, Member, axes_of, drawn, grouped, value_at, x_text
from ...engine.text import measured, plural
from ..acting.actions import bindings, bindings_of
from ..curve_reader import curves_of
from ..curves import BLANK, MARKS, Cell, Frame, overlay
from ..drawing.format import clean, cut, cut_middle, fit, width_of
from ..drawing.paragraphs import folded
from ..messages import OpenTask
from ..widgets.line_view import LineView
from .detail_lines import order_of
from .page import PageScreen

_WEIGHTS = (0.0, 0.6, 0.9, 0.97)
_TONES = 7
_GUTTER = 10
_NUMBER = 11
_STEP = 2
"""Cells that the column moves at a time."""
_ALL_BANDS = 3
"""Of more lines only the band of the chosen one and of the baseline are seen."""
_NONE = (
    "{who} reported no metric. A line in the task file keeps one:",
    """metrics.loss = { regex = 'loss[ =:]+([0-9.e+-]+)', best = "min" }""",
    "or the script prints ::gpudeck step=100 loss=0.31",
)
_PARTS = ("plain", "strong", "muted", "cursor", "info", *(f"line{tone}" for tone in range(_TONES)))
_Piece = tuple[str, str]


class CurvesView(LineView, inherit_bindings=False):
    """Give it tasks with `show`. The cursor is a line of the legend, and a column of the picture."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"curvesview--{part}" for part in _PARTS}
    ALLOW_SELECT = False
    DEFAULT_CSS = "CurvesView { overflow: hidden; }"

    def __init__(self) -> None:
        super().__init__()
        self._members: Sequence[Member] = ()
        self._metrics: Sequence[str] = ()
        self._asked: Sequence[str] = ()
        self._reading = True
        self._metric = self._axis = ""
        self._groups: bool | None = None
        """None: nobody has chosen: wherever there are some."""
        self._weight = 0
        self._log = False
        self._baseline = self._chosen = ""
        """Labels of lines."""
        self._column: int | None = None
        """None: at the end."""
        self._lines: Sequence[Drawn] = ()
        self._frame: Frame | None = None
        self._picture: Sequence[Sequence[Cell]] = ()

    # -- what others look at ------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> Drawn | None:
        """The line under the cursor."""
        return next((line for line in self._lines if line.label == self._chosen), None)

    def show(self, members: Sequence[Member], asked: Sequence[str], *, reading: bool) -> None:
        """Take other curves; what the user chose stays. *asked*: metrics of the task file. *reading*: more come."""
        self._members, self._asked, self._reading = members, asked, reading
        self._metrics = list(dict.fromkeys((*asked, *(name for member in members for name in member.curves))))
        if not any(self._metric in member.curves for member in members):
            told = [name for name in self._metrics if any(name in member.curves for member in members)]
            self._metric = next(iter((*told, *self._metrics)), "")
        self._remake()

    # -- changes ------------------------------------------------------------------------------------------------------

    def _remake(self) -> None:
        axes = axes_of(self._members, self._metric)
        self._axis = self._axis if self._axis in axes else next(iter(axes), "")
        weight = _WEIGHTS[self._weight]
        lines = drawn(self._members, self._metric, self._axis, groups=self._has_groups, weight=weight)
        self._lines = lines[: len(MARKS)]
        if self.chosen is None:
            self._chosen = self._lines[0].label if self._lines else ""
        if all(line.label != self._baseline for line in self._lines):
            self._baseline = ""
        self._frame = Frame.around(self._lines, log=self._log)
        self._redraw()

    @property
    def _has_groups(self) -> bool:
        if self._groups is None:
            return any(len(mine) > 1 for _, mine in grouped(self._members))
        return self._groups

    def _redraw(self) -> None:
        width, height = self._plot
        seen = {place for place, line in enumerate(self._lines) if line.label in (self._chosen, self._baseline)}
        bands = range(len(self._lines)) if len(self._lines) <= _ALL_BANDS else seen
        first = next((place for place, line in enumerate(self._lines) if line.label == self._chosen), 0)
        drawable = self._frame is not None and width > 1 and height > 0
        self._picture = (
            overlay(self._lines, self._frame, width, height, first=first, bands=bands)
            if drawable and self._frame is not None
            else ()
        )
        self.refresh()

    def on_resize(self) -> None:
        self._column = None
        self._redraw()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def move(self, step: int) -> None:
        """To another line of the legend."""
        labels = [line.label for line in self._lines]
        if labels:
            self._chosen = labels[min(max(labels.index(self._chosen) + step, 0), len(labels) - 1)]
            self._redraw()

    def move_column(self, step: int) -> None:
        width, _ = self._plot
        at = width - 1 if self._column is None else self._column
        at = min(max(at + step, 0), width - 1)
        self._column = None if at == width - 1 else at
        self.refresh()

    def next_metric(self) -> None:
        names = [name for name in self._metrics if any(name in member.curves for member in self._members)]
        self._metric = _next(names, self._metric)
        self._remake()

    def next_axis(self) -> None:
        self._axis = _next(axes_of(self._members, self._metric), self._axis)
        self._remake()

    def toggle_groups(self) -> None:
        """The task or group under the cursor stays under it."""
        before = self.chosen
        self._groups = not self._has_groups
        self._remake()
        if before is not None:
            mine = [line.label for line in self._lines if {*line.tasks} & {*before.tasks}]
            self._chosen = mine[0] if mine else self._chosen
            self._redraw()

    def pin(self) -> None:
        self._baseline = "" if self._baseline == self._chosen else self._chosen
        self._redraw()

    def smooth(self) -> None:
        self._weight = (self._weight + 1) % len(_WEIGHTS)
        self._remake()

    def toggle_log(self) -> None:
        self._log = not self._log
        self._remake()

    def open(self) -> None:
        """The page of the task, of several the first."""
        if self.chosen is not None:
            self.post_message(OpenTask(self.chosen.tasks[0]))

    # -- drawing ------------------------------------------------------------------------------------------------------

    @property
    def _legend(self) -> int:
        """Lines of it."""
        return min(len(self._lines), max(3, (self._area.height - 3) // 3))

    @property
    def _plot(self) -> tuple[int, int]:
        return max(0, self._area.width - _GUTTER - 1), max(0, self._area.height - 3 - self._legend)

    def render_line(self, y: int) -> Strip:
        width, height = self._area.width, self._area.height
        if y == height - 1:
            return self._foot(self._info())
        pieces = self._pieces(y)
        return Strip([Segment(text, self._style(part)) for text, part in pieces]).crop_extend(
            0, width, self._style("plain")
        )

    def _pieces(self, y: int) -> list[_Piece]:
        _, rows = self._plot
        if y == 0:
            return self._title()
        if self._frame is None:
            lines = self._nothing()
            return [(f" {lines[y - 2]}", "plain")] if 0 <= y - 2 < len(lines) else []
        if y <= rows:
            return self._plot_line(y - 1)
        if y == rows + 1:
            return [(" " * _GUTTER + cut(self._axis_line(), self._area.width - _GUTTER), "muted")]
        return self._legend_line(y - rows - 2)

    def _title(self) -> list[_Piece]:
        over = f" over {self._axis}" if self._axis else ""
        ways = [
            f"smoothed {_WEIGHTS[self._weight]:g}" if self._weight else "",
            "log scale" if self._log else "",
            "mean ± deviation over seeds" if self._has_groups else "",
        ]
        told = "   ".join(filter(None, ways))
        name = cut(clean(self._metric), max(8, self._area.width // 2))
        return [(f" {name}", "strong"), (f"{over}   {told}", "muted")]

    def _nothing(self) -> list[str]:
        """Why there is no picture."""
        width = max(10, self._area.width - 2)
        if self._reading:
            return ["reading …"]
        if any(member.curves for member in self._members):
            why = (
                "no value is greater than 0: y leaves the log scale" if self._log else "none of its values is a number"
            )
            return folded(f"{clean(self._metric)}: {why}", width)
        who = "This task has" if len(self._members) == 1 else f"These {len(self._members)} tasks have"
        return [line for text in _NONE for line in folded(text.replace("{who}", who), width)]

    def _plot_line(self, row: int) -> list[_Piece]:
        assert self._frame is not None
        if row >= len(self._picture):
            return []
        last = len(self._picture) - 1
        value = self._frame.high if not row else self._frame.low if row == last else None
        pieces: list[_Piece] = [(fit("" if value is None else measured(value), _GUTTER - 1, right=True) + " ", "plain")]
        pieces.append(("│", "muted"))
        for column, (char, place) in enumerate(self._picture[row]):
            part = "muted" if place < 0 else f"line{place % _TONES}"
            if column == self._column and char == BLANK:
                char = "┆"
            if pieces[-1][1] == part:
                pieces[-1] = (pieces[-1][0] + char, part)
            else:
                pieces.append((char, part))
        return pieces

    def _axis_line(self) -> str:
        assert self._frame is not None
        first, last = self._told(self._frame.left), self._told(self._frame.right)
        left = f"└{self._axis} {first}"
        return left + " " * max(1, self._area.width - _GUTTER - len(left) - width_of(last)) + last

    def _told(self, x: float) -> str:
        return x_text(self._axis, x)

    @property
    def _x(self) -> float | None:
        """Under the cursor; None: at the end of each line."""
        if self._column is None or self._frame is None:
            return None
        return self._frame.x_at(self._column, self._plot[0])

    def _value(self, line: Drawn) -> float | None:
        if self._x is None:
            return line.points[-1][1] if line.points else None
        return value_at(line.points, self._x)

    def _legend_line(self, row: int) -> list[_Piece]:
        labels = [line.label for line in self._lines]
        at = labels.index(self._chosen) if self._chosen in labels else 0
        place = row + min(max(0, at - self._legend // 2), max(0, len(labels) - self._legend))
        if not 0 <= row < self._legend or place >= len(labels):
            return []
        line = self._lines[place]
        name = f"{clean(line.label)} ({len(line.tasks)})" if len(line.tasks) > 1 else clean(line.label)
        value = self._value(line)
        told = "–" if value is None else measured(value)
        if not line.points:
            told = f"counts {line.axis}" if line.axis else self._without(line)
        room = max(8, self._area.width - 4 - 2 * _NUMBER - 2)
        room -= max(0, width_of(told) + 1 - _NUMBER)
        look = "cursor" if line.label == self._chosen else "plain"
        mark = (f"{'▸' if look == 'cursor' else ' '}{MARKS[place]} ", f"line{place % _TONES}")
        return [mark, (fit(cut_middle(name, room), room), look), (told.rjust(_NUMBER) + self._apart(line, value), look)]

    def _without(self, line: Drawn) -> str:
        """What is said of a line of tasks that have not told the metric."""
        more = self._reading or any(not member.ended for member in self._members if member.task in line.tasks)
        return "none yet" if more else "never wrote it"

    def _apart(self, line: Drawn, value: float | None) -> str:
        """From the baseline, where both have a value."""
        base = next((each for each in self._lines if each.label == self._baseline), None)
        if base is None:
            return ""
        if base is line:
            return "baseline".rjust(_NUMBER + 1)
        x = self._x if self._x is not None or not line.points else line.points[-1][0]
        other = None if x is None else value_at(base.points, x)
        if value is None or other is None:
            return "–".rjust(_NUMBER + 1)
        return (f"{'+' if value > other else ''}{measured(value - other)}").rjust(_NUMBER + 1)

    def _info(self) -> str:
        tasks = sum(len(line.tasks) for line in self._lines)
        where = f"at {self._axis} {self._told(self._x)}" if self._x is not None else "last values"
        left = len(self._members) - tasks
        return "   ".join(
            filter(
                None,
                (
                    where if self._frame is not None else "",
                    plural(tasks, "task"),
                    f"{left} more are left out: mark fewer" if left else "",
                    "reading …" if self._reading else "",
                    self._offer(),
                ),
            )
        )

    def _offer(self) -> str:
        """The line of the task file that has a metric kept which is only guessed in the end of logs."""
        curves = [member.curves[self._metric] for member in self._members if self._metric in member.curves]
        if self._metric in self._asked or not curves or any(curve.at_s for curve in curves):
            return ""
        return f"not kept; a line keeps it: {line_that_keeps(clean(self._metric))}"


def _next(names: Sequence[str], name: str) -> str:
    """The one behind it; behind the last the first."""
    return names[(names.index(name) + 1) % len(names)] if name in names else next(iter(names), "")


_MOST_TASKS = 60
"""Their files are read."""


class CurvesScreen(PageScreen[CurvesView]):
    BINDINGS = [*bindings("curves"), *bindings_of("curves")]  # noqa: RUF012
    OP = "show"
    PLACE = "curves"
    ACTION = "curves"
    ACTS: ClassVar[Mapping[str, Callable[[CurvesView], None]]] = {
        "page_open": CurvesView.open,
        "page_down_line": lambda view: view.move(1),
        "page_up_line": lambda view: view.move(-1),
        "curves_metric": CurvesView.next_metric,
        "curves_axis": CurvesView.next_axis,
        "curves_groups": CurvesView.toggle_groups,
        "curves_baseline": CurvesView.pin,
        "curves_smooth": CurvesView.smooth,
        "curves_log": CurvesView.toggle_log,
        "curves_left": lambda view: view.move_column(-_STEP),
        "curves_right": lambda view: view.move_column(_STEP),
    }

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = list(names)[:_MOST_TASKS]
        self._members: list[Member] = []
        self._asked: list[str] = []
        self._orders: list[Mapping[str, Any]] = []
        self._places: list[int] = []
        """Of the members whose files these are."""
        self._reader: Worker[None] | None = None
        self._unread: set[int] = set()
        self._view = CurvesView()

    async def load(self) -> None:
        rows = self.deck.rows_of(self._names)
        there, over = [row.name for row in rows], {row.name for row in rows if row.state in ENDED}
        told: list[Mapping[str, Any]] = await self.request(self.OP, tasks=there) if there else []
        known = {member.task: member.curves for member in self._members}
        given = await asyncio.to_thread(lambda: [_given(each) for each in told])
        self._members = [
            Member(
                each["name"],
                each["entry"],
                {**each["params"], **had},
                known.get(each["name"], {}),
                each["name"] in over,
            )
            for each, had in zip(told, given, strict=True)
        ]
        self._asked = list(dict.fromkeys(metric["name"] for each in told for metric in each.get("metrics", ())))
        orders = {place: order for place, each in enumerate(told) if (order := _order(each)) is not None}
        if list(orders.values()) != self._orders or self._reader is None:
            self._places, self._orders = list(orders), list(orders.values())
            self._read()
        self._show()

    def _show(self) -> None:
        self._view.show(self._members, self._asked, reading=bool(self._unread))

    def _read(self) -> None:
        """In place of what is being read."""
        self._rest()
        self._unread = set(range(len(self._orders)))
        self._reader = self.run_worker(self._take(self._orders, self._places)) if self._orders else None

    async def _take(self, orders: Sequence[Mapping[str, Any]], places: Sequence[int]) -> None:
        with contextlib.suppress(OSError):
            async for at, curves in curves_of(orders):
                self._unread.discard(at)
                self._put(places[at], curves)
        self._unread.clear()
        self._show()

    def _put(self, place: int, curves: Sequence[Curve]) -> None:
        self._members[place] = replace(self._members[place], curves={curve.name: curve for curve in curves})
        self._show()

    def _rest(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._reader = None

    def on_screen_suspend(self) -> None:
        self._rest()

    def on_screen_resume(self) -> None:
        if self._orders and self._reader is None:
            self._read()

    def targets(self) -> tuple[str, ...]:
        return () if self._view.chosen is None else self._view.chosen.tasks


def _chosen(task: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The attempt that runs, else the newest that succeeded, else the newest."""
    attempts: Sequence[Mapping[str, Any]] = task["attempts"]
    ended = [each for each in attempts if each["kind"] == "ok"] or attempts
    return task.get("running") or (ended[-1] if ended else None)


def _given(task: Mapping[str, Any]) -> Mapping[str, str]:
    """Values that its attempt had in the place of the file's. Reads attempt-N.json."""
    chosen = _chosen(task)
    return {} if chosen is None or not chosen.get("json") else given_in(read_record(chosen["json"]))


def _order(task: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is read of a task."""
    chosen, attempts = _chosen(task), task["attempts"]
    if chosen is None:
        return None
    lasts = chosen is task.get("running")
    return order_of(task, chosen, lasts, newest=lasts or chosen is attempts[-1], started=None)
