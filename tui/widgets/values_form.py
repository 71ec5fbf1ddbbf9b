"""A line in which other values for a task are typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..acting.doing import Question, Refusal
from ..drawing.format import clean
from .filter_bar import LineInput


class ValuesForm(ModalScreen[Question | None]):
    """Dismissed with what is asked about what was typed; escape: None. What is refused stays, and why is said."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "no", show=False)]

    def __init__(
        self, title: str, lines: Sequence[str], text: str, read: Callable[[str], Awaitable[Question | Refusal]]
    ) -> None:
        """*text*: what stands in the line at first. *read*: what becomes of what is typed."""
        super().__init__()
        self.asked = clean(title)
        self._lines = [clean(line) for line in lines]
        self._text = text
        self._read = read

    def compose(self) -> ComposeResult:
        with Vertical(id="values"):
            yield Static(Content(self.asked), id="values-title")
            yield Static(Content("\n".join(self._lines)), id="values-lines")
            yield LineInput(self._text, compact=True, id="values-text", select_on_focus=False)
            yield Static("", id="values-problem", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit(event.value)

    @work(exclusive=True)
    async def _submit(self, text: str) -> None:
        found = await self._read(text)
        if isinstance(found, Refusal):
            self.query_one("#values-problem", Static).update(clean(found.text))
        elif self.is_active:
            self.dismiss(found)

    def action_leave(self) -> None:
        if self.is_active:
            self.dismiss(None)
