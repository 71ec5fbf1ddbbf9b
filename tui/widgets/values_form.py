"""A line in which other values for a task are typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..drawing.format import clean
from .filter_bar import LineInput


class ValuesForm(ModalScreen[str | None]):
    """Dismissed with what was typed; escape: None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "no", show=False)]

    def __init__(self, title: str, lines: Sequence[str], text: str) -> None:
        """*text*: what stands in the line at first."""
        super().__init__()
        self.asked = clean(title)
        self._lines = [clean(line) for line in lines]
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(id="values"):
            yield Static(Content(self.asked), id="values-title")
            yield Static(Content("\n".join(self._lines)), id="values-lines")
            yield LineInput(self._text, compact=True, id="values-text", select_on_focus=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.is_current:
            self.dismiss(event.value)

    def action_leave(self) -> None:
        if self.is_current:
            self.dismiss(None)
