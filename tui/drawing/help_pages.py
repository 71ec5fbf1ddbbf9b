"""The help as pages of columns: every action of the table, those of the place where one is first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..acting.actions import Action, Where, on, shown
from .format import width_of
from .view import FLAGS, LOOKS

PLACES: Mapping[Where, str] = {
    "tasks": "Tasks",
    "deck": "Everywhere",
    "gpus": "On a GPU",
    "log": "In a log",
    "page": "On all pages over the deck",
    "detail": "On the page of a task",
    "timeline": "On the timeline",
    "graph": "On the graph",
    "errors": "On the errors",
}
SIGNS = "Signs"
LEAST_CELLS = 37
"""Of a column: two of them fit a terminal of 80."""
KEY_CELLS = 10
TEXT_CELLS = LEAST_CELLS - KEY_CELLS - 1
GAP = 2
_PAGES: frozenset[Where] = frozenset({"detail", "timeline", "graph", "errors"})


@dataclass(frozen=True, slots=True)
class HelpLine:
    """A title, which has no key, an action or a sign; empty between sections."""

    key: str = ""
    text: str = ""
    kind: Literal["", "title", "action", "sign"] = ""
    action_id: str = ""


Page = tuple[tuple[HelpLine, ...], ...]
"""Columns."""


@dataclass(frozen=True, slots=True)
class Pages:
    pages: tuple[Page, ...]
    cells: int
    """Of a column."""


def pages_of(here: Where, changed: Mapping[str, str], width: int, height: int) -> Pages:
    """As few columns as bring all on one page, else as many as fit; without blank lines where that saves a page.
    *changed*: the user's keys by action."""
    most = max(1, (width + GAP) // (LEAST_CELLS + GAP))
    for columns in range(1, most):
        found = _pages(here, changed, width, height, columns, blank=True)
        if len(found.pages) == 1:
            return found
    roomy, close = (_pages(here, changed, width, height, most, blank=blank) for blank in (True, False))
    return close if len(close.pages) < len(roomy.pages) else roomy


def _pages(here: Where, changed: Mapping[str, str], width: int, height: int, columns: int, *, blank: bool) -> Pages:
    cells = (width - GAP * (columns - 1)) // columns
    flowed = _flow(_sections(here, changed, cells - KEY_CELLS - 1), max(1, height), blank=blank)
    return Pages(tuple(tuple(flowed[at : at + columns]) for at in range(0, len(flowed), columns)), cells)


def keys_of(action: Action, changed: Mapping[str, str]) -> str:
    """All keys of an action as people write them."""
    keys = changed[action.id].split(",") if action.id in changed else action.keys
    return " ".join(shown(key.strip()) for key in keys)


def told_of(action: Action, cells: int) -> str:
    """The tip, or as much of it as fits and is a thought of its own; else the label."""
    thought = re.split("[,;:]", action.tip)[0]
    label = action.label[:1].upper() + action.label[1:]
    return next((text for text in (action.tip, thought) if width_of(text) <= cells), label)


def _order(here: Where) -> Iterable[Where]:
    """The place where one is, what holds there too, and the others."""
    return dict.fromkeys((here, *(("page",) if here in _PAGES else ()), *(("deck",) if here != "log" else ()), *PLACES))


def _sections(here: Where, changed: Mapping[str, str], cells: int) -> list[list[HelpLine]]:
    found: list[list[HelpLine]] = []
    for place in _order(here):
        lines = [HelpLine(keys_of(each, changed), told_of(each, cells), "action", each.id) for each in on(place)]
        found.append([HelpLine(text=PLACES[place], kind="title"), *lines])
        if place == "deck":
            found.append(_signs())
    return found


def _signs() -> list[HelpLine]:
    """Glyphs of states and flags, with what they stand for."""
    states: dict[str, list[str]] = {}
    for state, look in LOOKS.items():
        states.setdefault(look.glyph, []).append(state)
    signs = [(glyph, ", ".join(names)) for glyph, names in states.items()] + list(FLAGS.values())
    return [HelpLine(text=SIGNS, kind="title"), *(HelpLine(glyph, words, "sign") for glyph, words in signs)]


def _flow(sections: Sequence[Sequence[HelpLine]], height: int, *, blank: bool) -> list[tuple[HelpLine, ...]]:
    """Columns of that many lines. No title stands alone at the foot of one, no blank line at its top."""
    columns: list[list[HelpLine]] = [[]]
    for section in sections:
        if columns[-1] and len(columns[-1]) + 3 > height:
            columns.append([])
        elif columns[-1] and blank:
            columns[-1].append(HelpLine())
        for line in section:
            if len(columns[-1]) >= height:
                columns.append([])
            columns[-1].append(line)
    return [tuple(column) for column in columns]
