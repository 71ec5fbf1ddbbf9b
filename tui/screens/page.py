"""What timeline, graph and errors have in common: a page over the deck that asks the engine for what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.widget import Widget

from ...engine.errors import DeckError
from ..acting.actions import BY_ID, CHANGES, Where, bindings, footer_of, on
from ..widgets.deck_header import DeckHeader
from ..widgets.key_bar import KeyBar
from ..widgets.waiting import Waiting
from .deck_screen import DeckScreen

_Told = TypeVar("_Told")
View = TypeVar("View", bound=Widget)
_SHOWN_ON_PAGES = ("help", "leave", "undo")
"""Actions of the whole deck whose keys are shown here."""


class PageScreen(DeckScreen, Generic[View]):
    """Asks when it is opened and, at most every `PERIOD_S`, when tasks have moved since."""

    is_page = True
    """One of these at a time lies over the deck."""
    BINDINGS = bindings("page")
    OP = ""
    """The request that tells what is shown."""
    PLACE: Where = "page"
    ACTION = ""
    """What opens it; the same key leaves it."""
    ACTS: ClassVar[Mapping[str, Callable[[Any], None]]] = {}
    """What the page's own actions do to its view."""
    PERIOD_S = 2.0
    _view: View
    """The page itself."""

    def __init__(self) -> None:
        super().__init__()
        self._asking = False
        self._due = True
        self._states: dict[int, tuple[str, int]] = {}
        """State and attempt by row, as last seen."""
        self._has_told = False
        """The engine; until then nothing is known."""
        self._ahead: list[str] = []
        """Actions of this page whose keys came before what they are about."""
        self._said = ""
        """Why the engine did not tell, as the user has been told."""

    @property
    def place(self) -> Where:
        return self.PLACE

    def compose(self) -> ComposeResult:
        yield DeckHeader(now=self.gpudeck.clocks.wall)
        yield Waiting()
        yield self._view
        yield KeyBar()

    def on_mount(self) -> None:
        self._view.focus()
        self._show_keys()
        self.set_interval(self.PERIOD_S, self._look)
        self.query_one(Waiting).begin()
        self._look()

    def _show_keys(self) -> None:
        self.show_keys(footer_of([*on("page", self.PLACE), *(BY_ID[each] for each in _SHOWN_ON_PAGES)]))

    # -- asking -------------------------------------------------------------------------------------------------------

    def show_deck(self, changed: frozenset[int] | None) -> None:
        self.query_one(DeckHeader).show(self.deck)
        self._show_keys()
        if changed is None:
            self._states = {}
            self._due = True
        elif self._moved(changed):
            self._due = True

    def _moved(self, changed: Iterable[int]) -> bool:
        """Whether a task has another state; progress alone is none."""
        found = False
        for index in changed:
            row = self.deck.rows.get(index)
            if row is not None and self._states.get(index) != (row.state, row.attempt):
                self._states[index] = (row.state, row.attempt)
                found = True
        return found

    def _look(self) -> None:
        if self._due and not self._asking and self.is_current:
            self._due, self._asking = False, True
            self._ask()

    @work
    async def _ask(self) -> None:
        try:
            await self.load()
        except DeckError as error:
            self._fail(str(error))
        else:
            self._show_told()
        finally:
            self._asking = False

    def _show_told(self) -> None:
        if not self.is_there:
            return
        self._said, self._has_told = "", True
        self.query_one(Waiting).end()
        ahead, self._ahead = self._ahead, []
        for action_id in ahead:
            self._act(action_id)

    def _fail(self, why: str) -> None:
        if why == self._said:
            return
        self._said, self._ahead = why, []
        self.gpudeck.tell(why, error=True)
        if not self._has_told:
            self.query_one(Waiting).end(why)

    async def load(self) -> None:
        """Ask for what is shown, and show it. Raises DeckError."""
        raise NotImplementedError

    async def told(self, kind: type[_Told], **args: Any) -> _Told:
        """The answer to `OP`, as what docs/dev/protocol.md calls it. Raises DeckError."""
        return msgspec.convert(await self.request(self.OP, **args), kind)

    # -- actions ------------------------------------------------------------------------------------------------------

    def do_back(self) -> None:
        if self.is_active:
            self.dismiss()

    def act(self, action_id: str) -> None:
        if action_id in (self.ACTION, "back"):
            self.do_back()
        elif self._has_told or BY_ID[action_id].where not in ("page", self.PLACE):
            self._act(action_id)
        elif action_id in CHANGES:
            self.gpudeck.tell("nothing is shown here yet: nothing was done")
        else:
            self._ahead.append(action_id)

    def _act(self, action_id: str) -> None:
        if action_id in self.ACTS:
            self.ACTS[action_id](self._view)
        else:
            super().act(action_id)
