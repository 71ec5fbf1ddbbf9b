"""All keys, from the table of actions, and what the signs mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ..actions import Action, Where, on, shown
from .deck_screen import DeckScreen

if TYPE_CHECKING:
    from ..app import GpudeckApp

PLACES: tuple[tuple[Where, str], ...] = (
    ("tasks", "Tasks"),
    ("deck", "Everywhere"),
    ("gpus", "On a GPU"),
    ("log", "In a log"),
    ("page", "On all pages over the deck"),
    ("detail", "On the page of a task"),
    ("timeline", "On the timeline"),
    ("graph", "On the graph"),
    ("errors", "On the errors"),
)


def keys_of(action: Action, changed: Mapping[str, str]) -> str:
    """All keys of an action as people write them."""
    keys = changed[action.id].split(",") if action.id in changed else action.keys
    return " ".join(shown(key.strip()) for key in keys)


class Help(ModalScreen[None]):
    """Scrolls; any of esc, q, ? leaves; a click does what its line says."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss", show=False)]

    def __init__(self, changed: Mapping[str, str], problems: tuple[str, ...] = ()) -> None:
        """*changed*: keys of the user's configuration by action. *problems*: what in it was passed over."""
        super().__init__()
        self._changed = changed
        self._problems = problems

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            for problem in self._problems:
                yield Static(Text(problem), classes="problem")
            for place, title in PLACES:
                yield Static(Text(title), classes="title")
                yield Static(self._table(place))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def _table(self, place: Where) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, min_width=12)
        table.add_column(no_wrap=True, min_width=14)
        table.add_column()
        for action in on(place):
            does = Style(meta={"@click": f"screen.do({action.id!r})"})
            key = Text(keys_of(action, self._changed), Style(bold=True) + does)
            table.add_row(key, Text(action.label, does), Text(action.tip, Style(dim=True) + does))
        return table

    def action_do(self, action_id: str) -> None:
        """A click on a line is its key, on the screen below."""
        app = cast("GpudeckApp", self.app)  # pyright: ignore[reportUnknownMemberType]
        app.pop_screen()
        if isinstance(app.screen, DeckScreen):
            app.screen.act(action_id)
