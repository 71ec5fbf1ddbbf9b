"""Panes of GPUs as lines of spans: six, four or one line each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...engine.protocol.wire import GpuRow
from ..curves.braille import area
from ..drawing.format import clean, plural
from ..drawing.spans import Part, Span, cut, length, pack, pad
from ..settings.config import Thresholds
from ..widgets.gpu_history import GpuHistory
from . import cells, state
from .layout import FOLDED, FULL

Line = list[Span]

_LABEL = 5
_VALUE = 17
_MIN_GRAPH = 8
_MAX_BAR = 36
_WIDE = 100
"""A line of a folded GPU that has room for limits and longer bars."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What panes are drawn from, beside the GPU itself."""

    history: GpuHistory
    thresholds: Thresholds
    told: bool = True
    """An engine tells how the GPUs fare; else they are shown as they were, muted."""


def lines_of(gpu: GpuRow, height: int, width: int, drawn: Drawn) -> list[Line]:
    """Exactly *height* lines (`FULL`, `SHORT` or `FOLDED`) of at most *width* cells."""
    lines = [folded(gpu, width, drawn)] if height == FOLDED else _pane(gpu, height, width, drawn)
    return lines if drawn.told else [[_muted(span) for span in line] for line in lines]


def _muted(span: Span) -> Span:
    text, style = span
    return text, style if style in ("track", "rule") else "dim"


def _pane(gpu: GpuRow, height: int, width: int, drawn: Drawn) -> list[Line]:
    if gpu.lost:
        lines = [_title(gpu, width, drawn), cut(state.note(gpu), width), _slots(gpu, width)]
        return lines + [[] for _ in range(height - len(lines))]
    lines = [_title(gpu, width, drawn), _util(gpu, width, drawn), _memory(gpu, width, drawn)]
    if height == FULL:
        return [*lines, _sensors(gpu, width, drawn), _slots(gpu, width), _rest(gpu, width)]
    return [*lines, _crowded(gpu, width, drawn)]


# -- panes ------------------------------------------------------------------------------------------------------------


def _title(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    bus = gpu.pci_bus_id.removeprefix("0000:")
    parts = [
        Part(0, ((f"GPU {gpu.index}", "name"),)),
        Part(2, ((state.name(gpu), "plain"),)),
        Part(1, state.tags(gpu)),
        Part(0, state.badge(gpu, told=drawn.told)),
        Part(3, ((clean(bus), "dim"),) if bus else ()),
    ]
    title = pack(parts, width)
    rule = width - length(title) - 1
    return [*title, (" " + "─" * rule, "rule")] if rule > 0 else title


def _util(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    room = _Room(width)
    graph = area(drawn.history.util(gpu.uuid, 2 * room.graph), room.graph)[0]
    return _measure("util", cells.util_bar(gpu, room.bar), cells.util_text(gpu), (graph, "util-graph"), gpu, room)


def _memory(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    room = _Room(width)
    graph = area(drawn.history.memory(gpu.uuid, 2 * room.graph), room.graph)[0]
    text = cells.memory_text(gpu, drawn.thresholds)
    return _measure("mem", cells.memory_bar(gpu, room.bar), text, (graph, "memory-graph"), gpu, room)


@dataclass(frozen=True, slots=True)
class _Room:
    """How a line shares its width between the bar and what was before; no graph where there is little."""

    width: int

    @property
    def bar(self) -> int:
        left = self.width - _LABEL - _VALUE - 1
        with_graph = min(_MAX_BAR, (left - 1) * 2 // 5)
        return max(0, with_graph if left - 1 - with_graph >= _MIN_GRAPH else left)

    @property
    def graph(self) -> int:
        left = self.width - _LABEL - _VALUE - 2 - self.bar
        return left if left >= _MIN_GRAPH else 0


def _measure(label: str, bar: Sequence[Span], value: Span, graph: Span, gpu: GpuRow, room: _Room) -> Line:
    if gpu.stale_since is not None:
        bar, value = [(text, "dim" if style != "track" else style) for text, style in bar], (value[0], "dim")
    spans = [(label.ljust(_LABEL), "dim"), *bar, (" ", "plain"), *pad([value], _VALUE, right=True)]
    return cut([*spans, (" ", "plain"), graph] if room.graph else spans, room.width)


def _sensors(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    return pack(_sensor_parts(gpu, drawn), width)


def _sensor_parts(gpu: GpuRow, drawn: Drawn) -> list[Part]:
    return [
        Part(1, cells.temperature(gpu, drawn.thresholds)),
        Part(2, cells.power(gpu)),
        Part(0, cells.throttle(gpu)),
        Part(4, cells.clock(gpu, "SM", "sm_clock")),
        Part(5, cells.clock(gpu, "mem", "memory_clock")),
        Part(6, cells.fan(gpu)),
    ]


def _slots(gpu: GpuRow, width: int) -> Line:
    held = state.slots(gpu)
    return cut([("on it  ", "dim"), *held], width) if held else []


def _rest(gpu: GpuRow, width: int) -> Line:
    return pack([Part(0, state.note(gpu)), Part(1, cells.split(gpu))], width)


def _crowded(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    """What six lines say in the last three, as far as there is room."""
    parts = [Part(3, tuple(cut(state.slots(gpu), max(16, width // 3)))), Part(0, state.note(gpu))]
    return pack([*parts, *_sensor_parts(gpu, drawn), Part(7, cells.split(gpu))], width)


# -- one line ---------------------------------------------------------------------------------------------------------


def folded(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    """Columns stand at the same places for all GPUs of the same width."""
    line: Line = [(f"{gpu.index:>2} ", "name")]
    if width >= 56:
        tag = state.tags(gpu)
        named = [*tag, *([(" ", "plain")] if tag else []), (state.name(gpu), "plain" if not gpu.lost else "dim")]
        line += [*pad(named, 16 if width >= _WIDE else 9), (" ", "plain")]
    if gpu.lost:
        return cut([*line, *state.badge(gpu), (" ", "plain"), *state.note(gpu)], width)
    line += _folded_measures(gpu, width, drawn)
    left = max(0, width - length(line))
    tasks = tuple(state.slots(gpu, numbers=False, most=left))
    stale = gpu.stale_since is not None
    parts = [
        Part(0, state.badge(gpu, told=drawn.told)),
        Part(2 if stale else 1, tasks),
        Part(3, cells.throttle(gpu)),
        Part(1 if stale else 4, state.note(gpu)),
    ]
    return cut([*line, *pack(parts, left)], width)


def _folded_measures(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    wide = width >= _WIDE
    bar = 5 if width < 76 else 6 if not wide else 10
    util, memory = cells.util_text(gpu), cells.memory_text(gpu, drawn.thresholds)
    line: Line = [*cells.util_bar(gpu, bar), *_right(gpu, "util_percent", [util], 6), (" ", "plain")]
    if width >= 110:
        graph = min(24, (width - 94) // 2)
        line += [(area(drawn.history.util(gpu.uuid, 2 * graph), graph)[0], "util-graph"), (" ", "plain")]
    amount = memory[0].replace(" / ", "/") if wide else memory[0].replace(" / ", "/").replace(" GiB", "G")
    line += [*cells.memory_bar(gpu, bar), *_right(gpu, "used_mib", [(amount, memory[1])], 14 if wide else 11)]
    if width >= 70:
        size = 9 if wide else 6
        heat = cells.temperature(gpu, drawn.thresholds, limit=wide)
        line += [(" ", "plain"), *_right(gpu, "temperature_c", heat, size), (" ", "plain")]
        line += _right(gpu, "power_w", cells.power(gpu, limit=wide), size)
    if gpu.stale_since is not None:
        line = [(text, style if style == "track" else "dim") for text, style in line]
    return [*line, ("  ", "plain")]


def _right(gpu: GpuRow, field: str, spans: Sequence[Span], width: int) -> Line:
    """A value, or in few words why there is none."""
    if getattr(gpu, field) is None:
        spans = [(cells.briefly_missing(gpu, field), "dim")]
    return pad(spans, width, right=True)


def no_gpus(slots: int, tasks: Sequence[str]) -> str:
    """ "No GPU here: 2 of 4 CPU slots busy: prep-1, prep-2"."""
    if not slots:
        return "No GPU here"
    if not tasks:
        return f"No GPU here: {plural(slots, 'CPU slot')}, all free"
    return f"No GPU here: {len(tasks)} of {plural(slots, 'CPU slot')} busy: {', '.join(map(clean, tasks))}"
