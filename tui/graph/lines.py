"""A graph as lines of text with tones, and what is said of its boxes. Pure; knows no widget."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from ...engine.protocol.pages import Graph, GraphBarrier, GraphBox
from ...engine.protocol.states import ACTIVE, DONE, FAILED
from ..drawing.format import bar, clean, count, cut_middle, fit, width_of
from .layout import Layout, title

Tone = Literal[
    "line", "after", "open", "waits", "shut", "border", "name", "cursor", "done", "rest", "running", "bad", "plain"
]
Run = tuple[str, Tone]
"""Some cells of one tone."""

_JOINTS = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
"""By the sum of the sides that a line leaves a cell on."""
_SIGNS: Sequence[tuple[str, Collection[str], Tone]] = (
    ("●", ACTIVE, "running"),
    ("✗", FAILED, "bad"),
    ("⊘", ("blocked",), "shut"),
    ("↻", ("backoff",), "waits"),
    ("–", ("cancelled",), "waits"),
    ("○", ("queued",), "plain"),
    ("◌", ("waiting",), "rest"),
)
_BARRIER_SIGNS: Mapping[str, str] = {"open": "╎", "waits": "║", "shut": "╳"}


def line_of(layout: Layout, graph: Graph, y: int, chosen: int) -> list[Run]:
    """A line of the canvas. *chosen*: the box under the cursor; its border is heavy."""
    runs: list[Run] = []
    x = 0
    for placed in sorted(layout.by_line.get(y, ()), key=lambda placed: placed.x):
        runs += _between(layout, graph, y, x, placed.x)
        box = graph.boxes[placed.place]
        runs += _box_line(box, y - placed.y, layout.box_width, heavy=placed.place == chosen)
        x = placed.x + layout.box_width
    return [*runs, *_between(layout, graph, y, x, layout.width)]


def _between(layout: Layout, graph: Graph, y: int, start: int, end: int) -> Iterable[Run]:
    for x in range(start, end):
        if (y, x) in layout.arrows:
            yield "▶", layout.arrows[y, x]
        elif (y, x) in layout.lines:
            sides, tone = layout.lines[y, x]
            yield _JOINTS[sides], tone
        elif (y, x) in layout.barriers:
            state = graph.barriers[layout.barriers[y, x]].state
            yield _BARRIER_SIGNS[state], state
        else:
            yield " ", "plain"


def _box_line(box: GraphBox, line: int, width: int, *, heavy: bool) -> list[Run]:
    """One of the lines of a box: its name in the border, how far it is, how its tasks stand."""
    corners = "┏━┓┃┗┛" if heavy else "╭─╮│╰╯"
    border: Tone = "cursor" if heavy else "border"
    inner = width - 4
    match line:
        case 0:
            name = cut_middle(clean(title(box)), inner)
            rest = corners[1] * (inner - width_of(name) + 1) + corners[2]
            return [(corners[0] + corners[1], border), (name, "cursor" if heavy else "name"), (rest, border)]
        case 1:
            done = sum(box.counts.get(state, 0) for state in DONE)
            text = f" {count(done)}/{count(box.total)}"
            full, empty = bar(done / box.total if box.total else 0.0, max(0, inner - len(text)))
            return _framed([(full, "done"), (empty, "rest"), (text, "plain")], inner, corners[3], border)
        case 2:
            return _framed(_counts(box, inner), inner, corners[3], border)
        case _:
            return [(corners[4] + corners[1] * (width - 2) + corners[5], border)]


def _counts(box: GraphBox, width: int) -> list[Run]:
    """As many signs with their counts as there is room for; what needs eyes comes first."""
    runs: list[Run] = []
    left = width
    for sign, states, tone in _SIGNS:
        number = sum(box.counts.get(state, 0) for state in states)
        text = f"{sign} {count(number)}"
        if number and len(text) + (2 if runs else 0) <= left:
            if runs:
                runs.append(("  ", "plain"))
                left -= 2
            runs.append((text, tone))
            left -= len(text)
    return runs or [(fit("✓ done" if box.total else "", width), "done")]


def _framed(runs: list[Run], inner: int, side: str, border: Tone) -> list[Run]:
    used = sum(width_of(text) for text, _ in runs)
    return [(f"{side} ", border), *runs, (" " * max(0, inner - used), "plain"), (f" {side}", border)]


def _barrier_of(graph: Graph, box: GraphBox) -> GraphBarrier | None:
    """What stands before a box's round."""
    found = (each for each in graph.barriers if (each.group, each.round) == (box.group, box.round))
    return next(found, None)


def told(graph: Graph, place: int) -> str:
    """One line about a box: its round, what it waits for by name, what keeps its round closed."""
    box = graph.boxes[place]
    parts = [clean(title(box)), f"round {box.round}"]
    for kind in ("needs", "after"):
        edges = [edge for edge in graph.edges if edge.behind == place and edge.kind == kind]
        if edges:
            parts.append(f"{kind} {', '.join(clean(graph.boxes[edge.before].entry) for edge in edges)}")
    barrier = _barrier_of(graph, box)
    if barrier is not None:
        parts.append("its round is open" if barrier.state == "open" else clean(barrier.why))
    return "  ·  ".join(parts)


def filter_for(box: GraphBox) -> str:
    """What the table is filtered by to show a box's tasks."""
    words = [f"entry:{_literal(box.entry)}", f"round:{box.round}"]
    return " ".join([*words, f"group:{_literal(box.group)}"] if box.group else words)


def _literal(text: str) -> str:
    """As a pattern that means this text; what would end a word or a value is any character."""
    return "".join("?" if char in ',"' or char.isspace() else f"[{char}]" if char in "*?[" else char for char in text)
