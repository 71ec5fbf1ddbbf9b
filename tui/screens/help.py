"""All keys, from the table of actions, and what the signs mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from ..acting.actions import Where
from ..drawing.format import fit, width_of
from ..drawing.help_pages import GAP, KEY_CELLS, HelpLine, Page, pages_of
from ..drawing.paragraphs import folded, harmless
from .deck_screen import DeckScreen

if TYPE_CHECKING:
    from ..app import GpudeckApp

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

    def __init__(self, here: Where, changed: Mapping[str, str], problems: tuple[str, ...] = ()) -> None:
        """*changed*: keys of the user's configuration by action. *problems*: what in it was passed over."""
        super().__init__()
        self._here: Where = here
        self._changed = changed
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
        found = pages_of(self._here, self._changed, width, height - len(problems))
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
        app = cast("GpudeckApp", self.app)  # pyright: ignore[reportUnknownMemberType]
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
