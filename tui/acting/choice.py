"""A question with a few answers. The first one is the harmless one, and what enter chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from ..drawing.format import clean, width_of
from ..drawing.paragraphs import folded
from .doing import Option

_FRAME_CELLS = 6
"""Border and padding, left and right."""
_FRAME_ROWS = 4
"""Border, title, and the row before the answers."""
_PADDING_ROWS = 2
"""Left out where the answers need them."""
_BAR_CELLS = 1
"""The scrollbar of what does not fit."""
_LEAST_CELLS = 44
_KEY_CELLS = 5
"""Before an answer's words."""
_LABEL = re.compile(r"\S.*?\s{2,}")
"""What a line is about, with blanks between it and what is said of that."""


class Choice(ModalScreen[str]):
    """Dismissed with an answer's id; escape is the first answer. No key goes through it to the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "choose('')", "no", show=False),
        Binding("left,up,k,h", "app.focus_previous", show=False),
        Binding("right,down,j,l", "app.focus_next", show=False),
        Binding("pagedown,space", "scroll(1)", show=False),
        Binding("pageup,b", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str], answers: Sequence[Option]) -> None:
        super().__init__()
        self.asked = clean(title)
        self._lines = [clean(line) for line in lines]
        self._answers = answers
        self._labels = [_label(answer) for answer in answers]

    def compose(self) -> ComposeResult:
        with Vertical(id="choice"):
            yield Static(Content(self.asked), id="choice-title")
            with VerticalScroll(id="choice-lines", can_focus=False):
                yield Static()
            with Vertical(id="choice-answers"):
                for answer, label in zip(self._answers, self._labels, strict=True):
                    button = Button(Content(label), name=answer.id, classes="grave" if answer.grave else "")
                    button.compact = True
                    yield button

    def on_mount(self) -> None:
        self._fit()
        self.query(Button).first().focus()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """As wide as what it says. The answers come first, and what is explained gets the rows that they leave."""
        width, height = self.size
        cells = max(map(width_of, (self.asked, *self._lines, *(label + "  " for label in self._labels))))
        cells = min(max(cells + _FRAME_CELLS, _LEAST_CELLS), width * 9 // 10)
        least = len(self._answers) + bool(self._lines)
        roomy = least + _FRAME_ROWS + _PADDING_ROWS <= height * 9 // 10
        rows = (height * 9 // 10 - _PADDING_ROWS if roomy else height) - _FRAME_ROWS
        shown = max(1, min(len(self._answers), rows - bool(self._lines)))
        self._frame(cells, roomy=roomy, cut=shown < len(self._answers))
        self.query_one("#choice-answers").styles.max_height = shown
        self._explain(cells - _FRAME_CELLS, max(1, rows - shown))

    def _frame(self, cells: int, *, roomy: bool, cut: bool) -> None:
        """*cut*: not all answers are seen at once."""
        frame = self.query_one("#choice")
        frame.styles.width = cells
        frame.styles.padding = (1 if roomy else 0, 2)
        frame.border_subtitle = f"{len(self._answers)} answers, ↑ ↓ show more" if cut else ""

    def _explain(self, cells: int, rows: int) -> None:
        explained = self.query_one("#choice-lines")
        explained.display = bool(self._lines)
        explained.styles.max_height = rows
        lines = _hanging(self._lines, cells)
        if len(lines) > rows:
            lines = _hanging(self._lines, cells - _BAR_CELLS)
        explained.query_one(Static).update(Content("\n".join(lines)))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.action_choose(event.button.name or "")

    def on_key(self, event: events.Key) -> None:
        for answer in self._answers:
            if event.character and event.character in answer.key:
                event.stop()
                event.prevent_default()
                self.action_choose(answer.id)
                return

    def action_choose(self, answer: str) -> None:
        """Close with this answer; "": the harmless one. Once: a key that was pressed twice answers nothing more."""
        if self.is_active:
            self.dismiss(answer or self._answers[0].id)

    def action_scroll(self, pages: int) -> None:
        """What is explained, where it is longer than there is room."""
        explained = self.query_one("#choice-lines")
        explained.scroll_relative(y=pages * max(1, explained.size.height - 1), animate=False)


def _hanging(lines: Sequence[str], cells: int) -> list[str]:
    """Folded; where a line goes on, below what it says of what it is about."""
    found: list[str] = []
    for line in lines:
        label = _LABEL.match(line)
        indent = label.end() if label and label.end() <= cells // 2 else 0
        first, *more = folded(line[indent:], cells - indent)
        found += [line[:indent] + first, *(" " * indent + part for part in more)]
    return found


def _label(answer: Option) -> str:
    """The key first: it must not be cut."""
    key = f"[{answer.key[0]}]" if answer.key else ""
    return f"{key:<{_KEY_CELLS - 1}} {clean(answer.label)}"
