"""Panes of GPUs as lines of spans: six, four or one line each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...engine.protocol.wire import GpuRow
from ...engine.protocol.words import silent_text
from ..curves.charts import area
from ..drawing.format import clean, cut_middle, plural
from ..drawing.spans import Part, Span, cut, length, pack, pad
from ..settings.config import Thresholds
from ..widgets.gpu_history import GpuHistory
from . import cells
from .layout import FOLDED, FULL

_BADGES = {
    "drained": ("DRAINED", "warn"), "foreign": ("IN USE", "others"), "claimed": ("IN USE", "others"),
    "quarantined": ("QUARANTINED", "bad"), "quiet": ("RESTS", "dim"), "joined": ("SHARED", "others"),
    "leaving": ("LEAVING", "warn"),
}  # fmt: skip


def badge(gpu: GpuRow, *, told: bool = True) -> tuple[Span, ...]:
    """One word where something is the matter. *told*: there is an engine that tells how the GPU fares."""
    if gpu.lost:
        return (("LOST", "bad"),)
    if not told:
        return (("STALE", "dim"),)
    if gpu.stale_since is not None:
        return (("STALE", "bad"),)
    if gpu.note_kind in _BADGES:
        return (_BADGES[gpu.note_kind],)
    return (("TAKEN", "warn"),) if gpu.mark == "take" else ()


def note(gpu: GpuRow) -> tuple[Span, ...]:
    """The same in a few words more."""
    if gpu.lost:
        return ((f"does not answer: {clean(gpu.lost)}", "bad"),)
    if gpu.stale_since is not None:
        return ((silent_text(gpu.stale_since), "bad"),)
    said = [clean(line) for line in gpu.health]
    if gpu.note and gpu.note_kind != "drained":
        said.insert(0, clean(gpu.note))
    return (("; ".join(said), "bad" if gpu.health else "others"),) if said else ()


def name(gpu: GpuRow) -> str:
    """ "A40" of "NVIDIA A40"; a simulated one is marked by its tag."""
    return clean(gpu.name).removeprefix("NVIDIA ").removeprefix("SIM ") or "GPU"


def tags(gpu: GpuRow) -> tuple[Span, ...]:
    found = [word for word, there in (("SIM", gpu.simulated), ("MIG", gpu.mig)) if there and word not in name(gpu)]
    return ((" ".join(found), "warn" if gpu.simulated else "dim"),) if found else ()


def slots(gpu: GpuRow, *, numbers: bool = True, most: int = 1000) -> list[Span]:
    """Who is on which slot. Names have at most *most* cells: names of a sweep differ at their ends."""
    held = gpu.slot_tasks or gpu.tasks
    if not any(held):
        return [] if gpu.note_kind else [("free" if gpu.slots <= 1 else f"{gpu.slots} slots free", "dim")]
    spans: list[Span] = []
    for place, task in enumerate(held, 1):
        if spans:
            spans.append(("  ", "plain"))
        if numbers and len(held) > 1:
            spans.append((f"{place} ", "dim"))
        spans.append((cut_middle(clean(task), most), "task") if task else ("free", "dim"))
    return spans


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
        lines = [_title(gpu, width, drawn), cut(note(gpu), width), _slots(gpu, width)]
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
        Part(2, ((name(gpu), "plain"),)),
        Part(1, tags(gpu)),
        Part(0, badge(gpu, told=drawn.told)),
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
    held = slots(gpu)
    return cut([("on it  ", "dim"), *held], width) if held else []


def _rest(gpu: GpuRow, width: int) -> Line:
    return pack([Part(0, note(gpu)), Part(1, cells.split(gpu))], width)


def _crowded(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    """What six lines say in the last three, as far as there is room."""
    parts = [Part(3, tuple(cut(slots(gpu), max(16, width // 3)))), Part(0, note(gpu))]
    return pack([*parts, *_sensor_parts(gpu, drawn), Part(7, cells.split(gpu))], width)


# -- one line ---------------------------------------------------------------------------------------------------------


def folded(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    """Columns stand at the same places for all GPUs of the same width."""
    line: Line = [(f"{gpu.index:>2} ", "name")]
    if width >= 56:
        tag = tags(gpu)
        named = [*tag, *([(" ", "plain")] if tag else []), (name(gpu), "plain" if not gpu.lost else "dim")]
        line += [*pad(named, 16 if width >= _WIDE else 9), (" ", "plain")]
    if gpu.lost:
        return cut([*line, *badge(gpu), (" ", "plain"), *note(gpu)], width)
    line += _folded_measures(gpu, width, drawn)
    left = max(0, width - length(line))
    tasks = tuple(slots(gpu, numbers=False, most=left))
    stale = gpu.stale_since is not None
    parts = [
        Part(0, badge(gpu, told=drawn.told)),
        Part(2 if stale else 1, tasks),
        Part(3, cells.throttle(gpu)),
        Part(1 if stale else 4, note(gpu)),
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
