"""All keys, from the table of actions, and what the signs mean: pages of columns, the place where one is first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar, Literal, cast

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from ..acting.actions import BY_ID, Action, Where, on, shown
from ..deck_app import DeckApp
from ..drawing.format import fit, width_of
from ..drawing.paragraphs import folded, harmless
from ..drawing.view import FLAGS, LOOKS
from .deck_screen import DeckScreen

PLACES: Mapping[Where, str] = {
    "tasks": "Tasks",
    "deck": "Everywhere",
    "panes": "Panes",
    "gpus": "On a GPU",
    "log": "In a log",
    "page": "On all pages over the deck",
    "detail": "On the page of a task",
    "timeline": "On the timeline",
    "graph": "On the graph",
    "errors": "On the errors",
    "curves": "On the curves",
}
SIGNS = "Signs"
LEAST_CELLS = 37
"""Of a column: two of them fit a terminal of 80."""
KEY_CELLS = 10
GAP = 2
_PAGES: frozenset[Where] = frozenset({"detail", "timeline", "graph", "errors", "curves"})


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


def pages_of(here: Where, width: int, height: int) -> Pages:
    """As few columns as bring all on one page, else as many as fit; without blank lines where that saves a page."""
    most = max(1, (width + GAP) // (LEAST_CELLS + GAP))
    for columns in range(1, most):
        found = _pages(here, width, height, columns, blank=True)
        if len(found.pages) == 1:
            return found
    roomy, close = (_pages(here, width, height, most, blank=blank) for blank in (True, False))
    return close if len(close.pages) < len(roomy.pages) else roomy


def _pages(here: Where, width: int, height: int, columns: int, *, blank: bool) -> Pages:
    cells = (width - GAP * (columns - 1)) // columns
    flowed = _flow(_sections(here, cells - KEY_CELLS - 1), max(1, height), blank=blank)
    return Pages(tuple(tuple(flowed[at : at + columns]) for at in range(0, len(flowed), columns)), cells)


def told_of(action: Action, cells: int) -> str:
    """The tip, or as much of it as fits and is a thought of its own; else the label."""
    thought = re.split("[,;:]", action.tip)[0]
    label = action.label[:1].upper() + action.label[1:]
    return next((text for text in (action.tip, thought) if width_of(text) <= cells), label)


def _order(here: Where) -> Iterable[Where]:
    """The place where one is, what holds there too, and the others."""
    return dict.fromkeys((here, *(("page",) if here in _PAGES else ()), *(("deck",) if here != "log" else ()), *PLACES))


def _sections(here: Where, cells: int) -> list[list[HelpLine]]:
    found: list[list[HelpLine]] = []
    for place in _order(here):
        lines = [HelpLine(_keys_of(each), told_of(each, cells), "action", each.id) for each in on(place)]
        found.append([HelpLine(text=PLACES[place], kind="title"), *lines])
        if place == "deck":
            found.append(_signs())
    return found


def _keys_of(action: Action) -> str:
    """All of them as people write them."""
    return " ".join(map(shown, BY_ID[action.id].keys))


def _signs() -> list[HelpLine]:
    """Glyphs of states and flags, with what they stand for."""
    states: dict[str, list[str]] = {}
    for state, look in LOOKS.items():
        states.setdefault(look.glyph, []).append(state)
    signs = [(glyph, ", ".join(names)) for glyph, names in states.items()] + list(FLAGS.values())
    return [HelpLine(text=SIGNS, kind="title"), *(HelpLine(glyph, words, "sign") for glyph, words in signs)]


def _flow(sections: Sequence[Sequence[HelpLine]], height: int, *, blank: bool) -> list[tuple[HelpLine, ...]]:
    """Columns of that many lines. No title stands alone at the foot of one, no blank line at its top; one that begins
    within a section has its title once more."""
    columns: list[list[HelpLine]] = [[]]
    for section in sections:
        if columns[-1] and len(columns[-1]) + 3 > height:
            columns.append([])
        elif columns[-1] and blank:
            columns[-1].append(HelpLine())
        for line in section:
            if len(columns[-1]) >= height:
                columns.append([replace(section[0], text=f"{section[0].text} …")] if height > 1 else [])
            columns[-1].append(line)
    return [tuple(column) for column in columns]


_FRAME_CELLS = 4
"""Border and padding, left and right."""
_FRAME_ROWS = 2
_NOTHING = HelpLine()


class Help(ModalScreen[None]):
    """A page at a time; any of esc, q, ? leaves; a click does what its line says."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss", show=False),
        Binding("space,pagedown,ctrl+f,down,right,j,l,n,tab", "turn(1)", show=False),
        Binding("b,pageup,up,left,k,h,p,shift+tab", "turn(-1)", show=False),
        Binding("g,home", "turn(-99)", show=False),
        Binding("G,end", "turn(99)", show=False),
    ]

    def __init__(self, here: Where, problems: tuple[str, ...] = ()) -> None:
        """*problems*: what was passed over in the user's configuration."""
        super().__init__()
        self._here: Where = here
        self._problems = problems
        self._pages: Sequence[Page] = ()
        self._cells = 0
        self._at = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield Static(id="help-problems")
            yield Static(id="help-keys")

    def on_mount(self) -> None:
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.size.width - _FRAME_CELLS, self.size.height - _FRAME_ROWS
        problems = [line for text in self._problems for line in folded(harmless(text), width)]
        told = self.query_one("#help-problems", Static)
        told.display = bool(problems)
        told.update(Text("\n".join(problems)))
        found = pages_of(self._here, width, height - len(problems))
        self._pages, self._cells = found.pages, found.cells
        self.action_turn(0)

    def action_turn(self, pages: int) -> None:
        """So many pages on."""
        self._at = max(0, min(len(self._pages) - 1, self._at + pages))
        self.query_one("#help-keys", Static).update(_text(self._pages[self._at], self._cells))
        frame = self.query_one("#help")
        turns = f"page {self._at + 1} of {len(self._pages)} · space, b: turn · " if len(self._pages) > 1 else ""
        frame.border_subtitle = f"{turns}esc: back"

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_turn(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_turn(-1)

    def action_do(self, action_id: str) -> None:
        """A click on a line is its key, on the screen below."""
        app = cast("DeckApp", self.app)  # pyright: ignore[reportUnknownMemberType]
        app.pop_screen()
        if isinstance(app.screen, DeckScreen):
            app.screen.act(action_id)


def _text(page: Page, cells: int) -> Text:
    """The columns of a page beside each other."""
    found = Text(no_wrap=True)
    for at, row in enumerate(zip_longest(*page, fillvalue=_NOTHING)):
        found.append("\n" if at else "")
        for column, line in enumerate(row):
            found.append(" " * GAP if column else "")
            _append(found, line, cells)
    return found


def _append(text: Text, line: HelpLine, cells: int) -> None:
    if line.kind == "title":
        text.append(fit(line.text, cells), Style(bold=True, underline=True))
        return
    does = Style(meta={"@click": f"screen.do({line.action_id!r})"}) if line.action_id else Style.null()
    key = fit(line.key, max(KEY_CELLS, width_of(line.key))) + " "
    text.append(key, Style(bold=True) + does)
    text.append(fit(line.text, max(0, cells - width_of(key))), does)
