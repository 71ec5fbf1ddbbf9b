"""How GPUs share the cells that they have, and what is said of each. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ...engine.protocol.wire import GpuRow
from ...engine.protocol.words import silent_text
from ..curves import area
from ..drawing.format import clean, cut_middle, length, plural
from ..drawing.spans import Part, Span, bar, block, cut, muted, pack, pad
from ..settings import Thresholds

FULL, SHORT, FOLDED = 6, 4, 1
"""Lines of a pane."""
FOLD_FROM = 8
"""So many GPUs are shown one line each."""
_MAY_SPLIT = 110
"""Wide enough for two columns where one does not fit."""
_SPLIT = 140
"""So wide that one column would be stretched."""
_TWO_FOLDED_COLUMNS = 160

STEPS = ("up", "down", "gpu_left", "gpu_right", "top", "bottom", "page_up", "page_down")
"""Actions of the table that lead from one GPU to another."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`count` panes, row by row."""

    count: int
    columns: int
    pane_height: int
    pane_width: int

    @property
    def rows(self) -> int:
        return -(-self.count // self.columns)

    @property
    def height(self) -> int:
        return self.rows * self.pane_height

    def at(self, x: int, y: int) -> int | None:
        """The pane at a cell; None beside all of them."""
        index = y // self.pane_height * self.columns + min(x // self.pane_width, self.columns - 1)
        return index if x >= 0 and y >= 0 and index < self.count else None

    def top(self, index: int) -> int:
        """The first line of a pane."""
        return index // self.columns * self.pane_height

    def after(self, index: int, step: str, seen_height: int) -> int:
        """The pane that one of `STEPS` leads to; *seen_height*: lines of which a page is made."""
        page = max(1, seen_height // self.pane_height) * self.columns
        target = {
            "up": index - self.columns, "down": index + self.columns, "gpu_left": index - 1, "gpu_right": index + 1,
            "top": 0, "bottom": self.count - 1, "page_up": index - page, "page_down": index + page,
        }[step]  # fmt: skip
        if step in ("up", "down") and not 0 <= target < self.count:
            return index
        return max(0, min(self.count - 1, target))


def lay_out(count: int, width: int, height: int) -> Layout:
    """The tallest panes for which there is room, from eight GPUs on one line each; what does not fit is scrolled to."""
    width = max(1, width)
    for pane_height in (FULL, SHORT) if count < FOLD_FROM else ():
        for columns in _columns(count, width):
            found = Layout(count, columns, pane_height, width // columns)
            if found.height <= height:
                return found
    columns = 2 if width >= _TWO_FOLDED_COLUMNS and count > height else 1
    return Layout(count, columns, FOLDED, width // columns)


def _columns(count: int, width: int) -> tuple[int, ...]:
    if count < 2 or width < _MAY_SPLIT:
        return (1,)
    return (2,) if width >= _SPLIT else (1, 2)


KEPT_S = 600


class Series:
    """One number over time, by second. What was told last holds until something else is told: the engine is silent
    about what does not change."""

    def __init__(self, kept_s: int = KEPT_S) -> None:
        self._values: deque[float | None] = deque(maxlen=kept_s)
        self._second: int | None = None

    def add(self, at: float, value: float | None) -> None:
        """*at*: seconds of any clock that runs on. None: a gap."""
        second = int(at)
        if self._second is not None and second <= self._second:
            self._values[-1] = value
            return
        if self._second is not None:
            held = min(second - self._second - 1, self._values.maxlen or 0)
            self._values.extend([self._values[-1]] * held)
        self._values.append(value)
        self._second = second

    def last(self, count: int) -> Sequence[float | None]:
        """The newest values, oldest first; fewer where there are not so many."""
        return list(islice(self._values, max(0, len(self._values) - count), None))


class GpuHistory:
    """Utilisation and used memory in percent, by the GPU's UUID."""

    def __init__(self) -> None:
        self._util = defaultdict[str, Series](Series)
        self._memory = defaultdict[str, Series](Series)

    def take(self, gpus: Sequence[GpuRow], at: float) -> None:
        """GPUs that are gone are forgotten; one that is lost or whose readings are stale has a gap."""
        uuids = {gpu.uuid for gpu in gpus}
        for series in (self._util, self._memory):
            for uuid in series.keys() - uuids:
                del series[uuid]
        for gpu in gpus:
            silent = bool(gpu.lost) or gpu.stale_since is not None
            self._util[gpu.uuid].add(at, None if silent else gpu.util_percent)
            self._memory[gpu.uuid].add(at, None if silent else memory_percent(gpu))

    def interrupt(self, at: float) -> None:
        """Nobody tells anything: a gap from now on."""
        for series in (*self._util.values(), *self._memory.values()):
            series.add(at, None)

    def util(self, uuid: str, count: int) -> Sequence[float | None]:
        return self._util[uuid].last(count)

    def memory(self, uuid: str, count: int) -> Sequence[float | None]:
        return self._memory[uuid].last(count)


def memory_percent(gpu: GpuRow) -> float | None:
    if gpu.used_mib is None or not gpu.total_mib:
        return None
    return 100.0 * gpu.used_mib / gpu.total_mib


_NOT_KNOWN = "N/A"
_MARGIN_C = 5
"""Hot: so close to the temperature at which the card slows itself down."""
_TOLD_MIB = 512
"""The driver and its contexts take a little that no process has."""


def why_missing(gpu: GpuRow, field: str) -> str:
    """In place of a value: "N/A", "no permission", or what the driver said."""
    why = clean(gpu.missing.get(field, ""))
    return _NOT_KNOWN if why in ("", "not supported") else why


def briefly_missing(gpu: GpuRow, field: str) -> str:
    """The same in six cells."""
    return "denied" if gpu.missing.get(field) == "no permission" else _NOT_KNOWN


def gib(mib: float) -> str:
    return f"{mib / 1024:.1f}" if mib < 1024 * 999.5 else f"{mib / 1024:.0f}"


def util_text(gpu: GpuRow) -> Span:
    if gpu.util_percent is None:
        return why_missing(gpu, "util_percent"), "dim"
    return f"{gpu.util_percent}%", "plain"


def memory_text(gpu: GpuRow, thresholds: Thresholds) -> Span:
    if gpu.used_mib is None:
        return why_missing(gpu, "used_mib"), "dim"
    if gpu.total_mib is None:
        return f"{gib(gpu.used_mib)} GiB", "plain"
    full = 100 * gpu.used_mib >= thresholds.memory_percent * gpu.total_mib
    return f"{gib(gpu.used_mib)} / {gib(gpu.total_mib)} GiB", "warn" if full else "plain"


def util_bar(gpu: GpuRow, width: int) -> list[Span]:
    if gpu.util_percent is None:
        return [(" " * width, "plain")]
    return bar([(gpu.util_percent / 100, "util")], width)


def memory_bar(gpu: GpuRow, width: int) -> list[Span]:
    if gpu.used_mib is None or not gpu.total_mib:
        return [(" " * width, "plain")]
    owners = _owners(gpu) or [("unexplained", gpu.used_mib)]
    return bar([(mib / gpu.total_mib, owner) for owner, mib in owners], width)


def _owners(gpu: GpuRow) -> list[tuple[str, int]]:
    """Whose how many MiB are, this deck's first; of others those that have some. Empty: not known."""
    owned = gpu.memory
    if owned is None:
        return []
    unexplained_mib = owned.unexplained_mib if owned.unexplained_mib >= _TOLD_MIB else 0
    others = (("mine", owned.mine_mib), ("others", owned.others_mib), ("unexplained", unexplained_mib))
    return [("deck", owned.deck_mib), *((owner, mib) for owner, mib in others if mib)]


def temperature(gpu: GpuRow, thresholds: Thresholds, *, limit: bool = True) -> tuple[Span, ...]:
    if gpu.temperature_c is None:
        return ((f"{why_missing(gpu, 'temperature_c')} °C", "dim"),)
    warn_c = thresholds.temperature_c if gpu.slowdown_c is None else gpu.slowdown_c - _MARGIN_C
    style = "warn" if gpu.temperature_c >= warn_c else "plain"
    if gpu.slowdown_c is None or not limit:
        return ((f"{gpu.temperature_c} °C", style),)
    return (str(gpu.temperature_c), style), (f"/{gpu.slowdown_c} °C", "dim")


def power(gpu: GpuRow, *, limit: bool = True) -> tuple[Span, ...]:
    if gpu.power_w is None:
        return ((f"{why_missing(gpu, 'power_w')} W", "dim"),)
    if gpu.power_limit_w is None or not limit:
        return ((f"{gpu.power_w:.0f} W", "plain"),)
    return (f"{gpu.power_w:.0f}", "plain"), (f"/{gpu.power_limit_w:.0f} W", "dim")


def clock(gpu: GpuRow, label: str, field: str) -> tuple[Span, ...]:
    """Empty where nothing is known, not even why."""
    now: int | None = getattr(gpu, f"{field}_mhz")
    most: int | None = getattr(gpu, f"{field}_max_mhz")
    if now is None:
        return ((f"{label} {why_missing(gpu, f'{field}_mhz')}", "dim"),) if f"{field}_mhz" in gpu.missing else ()
    limit = "" if most is None else f"/{most}"
    return (f"{label} ", "dim"), (str(now), "plain"), (f"{limit} MHz", "dim")


def fan(gpu: GpuRow) -> tuple[Span, ...]:
    if gpu.fan_percent is None:
        return ((f"fan {why_missing(gpu, 'fan_percent')}", "dim"),) if "fan_percent" in gpu.missing else ()
    return (("fan ", "dim"), (f"{gpu.fan_percent}%", "plain"))


_GRAVE = frozenset({"hw thermal", "thermal", "power brake", "hw slowdown"})


def throttle(gpu: GpuRow) -> tuple[Span, ...]:
    """ "slowed: thermal, power"; a card at its power limit is at work, one that is too hot is in trouble."""
    if not gpu.throttle:
        return ()
    grave = not _GRAVE.isdisjoint(gpu.throttle)
    return ((f"slowed: {', '.join(map(clean, gpu.throttle))}", "warn" if grave else "dim"),)


def split(gpu: GpuRow) -> tuple[Span, ...]:
    """Whose the memory is, where not all of it is this deck's."""
    owners = _owners(gpu)
    if len(owners) < 2:
        return ()
    found: list[Span] = []
    for owner, mib in owners:
        if mib:
            found += [(block(owner), owner), (f" {owner} {gib(mib)}  ", "plain")]
    return (*found[:-1], (found[-1][0].rstrip() + " GiB", "plain"))


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
    """Exactly *height* lines (`FULL`, `SHORT` or `FOLDED`) of at most *width*"""
    lines = [folded(gpu, width, drawn)] if height == FOLDED else _pane(gpu, height, width, drawn)
    return lines if drawn.told else [muted(line) for line in lines]


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
    bar, graph = _shared(width)
    before = area(drawn.history.util(gpu.uuid, 2 * graph), graph)
    return _measure("util", util_bar(gpu, bar), util_text(gpu), (before, "util-graph"), gpu, width)


def _memory(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    bar, graph = _shared(width)
    before = area(drawn.history.memory(gpu.uuid, 2 * graph), graph)
    text = memory_text(gpu, drawn.thresholds)
    return _measure("mem", memory_bar(gpu, bar), text, (before, "memory-graph"), gpu, width)


def _shared(width: int) -> tuple[int, int]:
    """Cells of a line for the bar and for what was before; none for that where there are few."""
    left = width - _LABEL - _VALUE - 1
    with_graph = min(_MAX_BAR, (left - 1) * 2 // 5)
    bar = max(0, with_graph if left - 1 - with_graph >= _MIN_GRAPH else left)
    graph = left - 1 - bar
    return bar, graph if graph >= _MIN_GRAPH else 0


def _measure(label: str, bar: Sequence[Span], value: Span, graph: Span, gpu: GpuRow, width: int) -> Line:
    if gpu.stale_since is not None:
        bar, value = muted(bar), (value[0], "dim")
    spans = [(label.ljust(_LABEL), "dim"), *bar, (" ", "plain"), *pad([value], _VALUE, right=True)]
    return cut([*spans, (" ", "plain"), graph] if graph[0] else spans, width)


def _sensors(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    return pack(_sensor_parts(gpu, drawn), width)


def _sensor_parts(gpu: GpuRow, drawn: Drawn) -> list[Part]:
    return [
        Part(1, temperature(gpu, drawn.thresholds)),
        Part(2, power(gpu)),
        Part(0, throttle(gpu)),
        Part(4, clock(gpu, "SM", "sm_clock")),
        Part(5, clock(gpu, "mem", "memory_clock")),
        Part(6, fan(gpu)),
    ]


def _slots(gpu: GpuRow, width: int) -> Line:
    held = slots(gpu)
    return cut([("on it  ", "dim"), *held], width) if held else []


def _rest(gpu: GpuRow, width: int) -> Line:
    return pack([Part(0, note(gpu)), Part(1, split(gpu))], width)


def _crowded(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    """What six lines say in the last three, as far as there is room."""
    parts = [Part(3, tuple(cut(slots(gpu), max(16, width // 3)))), Part(0, note(gpu))]
    return pack([*parts, *_sensor_parts(gpu, drawn), Part(7, split(gpu))], width)


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
        Part(3, throttle(gpu)),
        Part(1 if stale else 4, note(gpu)),
    ]
    return cut([*line, *pack(parts, left)], width)


def _folded_measures(gpu: GpuRow, width: int, drawn: Drawn) -> Line:
    wide = width >= _WIDE
    bar = 5 if width < 76 else 6 if not wide else 10
    util, memory = util_text(gpu), memory_text(gpu, drawn.thresholds)
    line: Line = [*util_bar(gpu, bar), *_right(gpu, "util_percent", [util], 6), (" ", "plain")]
    if width >= 110:
        graph = min(24, (width - 94) // 2)
        line += [(area(drawn.history.util(gpu.uuid, 2 * graph), graph), "util-graph"), (" ", "plain")]
    amount = memory[0].replace(" / ", "/") if wide else memory[0].replace(" / ", "/").replace(" GiB", "G")
    line += [*memory_bar(gpu, bar), *_right(gpu, "used_mib", [(amount, memory[1])], 14 if wide else 11)]
    if width >= 70:
        size = 9 if wide else 6
        heat = temperature(gpu, drawn.thresholds, limit=wide)
        line += [(" ", "plain"), *_right(gpu, "temperature_c", heat, size), (" ", "plain")]
        line += _right(gpu, "power_w", power(gpu, limit=wide), size)
    if gpu.stale_since is not None:
        line = muted(line)
    return [*line, ("  ", "plain")]


def _right(gpu: GpuRow, field: str, spans: Sequence[Span], width: int) -> Line:
    """A value, or in few words why there is none."""
    if getattr(gpu, field) is None:
        spans = [(briefly_missing(gpu, field), "dim")]
    return pad(spans, width, right=True)


def no_gpus(slots: int, tasks: Sequence[str]) -> str:
    """ "No GPU here: 2 of 4 CPU slots busy: prep-1, prep-2"."""
    if not slots:
        return "No GPU here"
    if not tasks:
        return f"No GPU here: {plural(slots, 'CPU slot')}, all free"
    return f"No GPU here: {len(tasks)} of {plural(slots, 'CPU slot')} busy: {', '.join(map(clean, tasks))}"
