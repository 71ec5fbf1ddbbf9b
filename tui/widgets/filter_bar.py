"""The line in which the table's filter is typed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widgets import Input, Static

from ...engine.errors import UsageError
from ..drawing.filtering import parse
from ..drawing.format import clean
from ..settings import RESERVED


def _without_reserved() -> Iterator[Binding]:
    for binding in Input.BINDINGS:
        if isinstance(binding, Binding):
            keys = [key for key in binding.key.split(",") if key not in RESERVED]
            yield replace(binding, key=",".join(keys))


class LineInput(Input, inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = [*_without_reserved()]

    async def on_key(self, event: Key) -> None:
        """Keys that edit act here, each before the next: bound alone, they would go up to the app first, and what is
        typed behind them in one burst would come before them."""
        if action := _EDITS.get(event.key):
            event.stop()
            event.prevent_default()
            await self.run_action(action)


_EDITS = {key: binding.action for binding in _without_reserved() for key in binding.key.split(",") if key}


HINT = "words  state:failed  tag:x  gpu:2  lr=0.1  -not"


class FilterBar(Horizontal):
    """Hidden until `open`. It filters nothing itself: whoever gets `Typed` does, and tells what is wrong with `say`."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "drop", "clear"), ("down,up", "keep", "to the table")]
    DEFAULT_CSS = "FilterBar { height: 1; display: none; } FilterBar.open { display: block; }"

    @dataclass
    class Typed(Message):
        """The text is another one now."""

        text: str

    @dataclass
    class Closed(Message):
        """The bar has gone; the text that stays, "" after escape."""

        text: str

    def compose(self) -> ComposeResult:
        yield Static("/", id="filter-sign", markup=False)
        yield LineInput(placeholder=HINT, compact=True, id="filter-text", select_on_focus=False)
        yield Static("", id="filter-problem", markup=False)

    @property
    def value(self) -> str:
        return self._input.value

    @value.setter
    def value(self, text: str) -> None:
        """Shown only; nobody is told."""
        with self.prevent(Input.Changed):
            self._input.value = text

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    def open(self, text: str | None = None) -> None:
        """Show the bar and type in it. *text*: what it holds; None: as it was left."""
        if text is not None:
            self.value = text
        self.add_class("open")
        self.screen.set_focus(self._input)  # at once: the next key is text
        self._input.cursor_position = len(self.value)

    def say(self, problem: str) -> None:
        """Why the text means nothing; "": it means something."""
        self.query_one("#filter-problem", Static).update(Content(clean(problem)))

    @property
    def is_open(self) -> bool:
        """Somebody types in it."""
        return self.has_class("open")

    def _keep(self) -> None:
        """Hide it, once the text means something."""
        try:
            parse(self.value)
        except UsageError as error:
            self.say(str(error))
        else:
            self.close()

    def close(self) -> None:
        """Hide it; the text stays."""
        self.remove_class("open")
        self.say("")
        self.post_message(self.Closed(self.value))

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Typed(""))
        self.close()

    def action_keep(self) -> None:
        self._keep()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._keep()
