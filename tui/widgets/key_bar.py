"""The last line: what the keys do here. Each can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from ..acting.actions import BY_ID, Action

_ALWAYS = ("help", "leave")


class KeyBar(Widget):
    """Redrawn when other actions are shown, never for a move of the cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-bar--key", "key-bar--label"}

    def __init__(self) -> None:
        super().__init__()
        self.auto_links = False  # keys and labels have styles of their own
        self._actions: Sequence[Action] = ()

    def show(self, actions: Sequence[Action]) -> None:
        if actions != self._actions:
            self._actions = actions
            self.refresh()

    def render(self) -> RenderResult:
        key_style = self.get_component_rich_style("key-bar--key")
        label_style = self.get_component_rich_style("key-bar--label")
        line = Text(no_wrap=True, overflow="ellipsis", end="")
        for action in self._fitting(self.size.width):
            click = Style(meta={"@click": f"screen.act('{action.id}')"})
            line.append(f" {BY_ID[action.id].shown_key} ", key_style + click)
            line.append(f"{action.label} ", label_style + click)
        return line

    def _fitting(self, width: int) -> list[Action]:
        """The first ones for which there is room; help and leave come before the rest."""

        def cells(action: Action) -> int:
            return len(BY_ID[action.id].shown_key) + len(action.label) + 3

        left = width - sum(cells(action) for action in self._actions if action.id in _ALWAYS)
        fitting: list[Action] = []
        for action in self._actions:
            if action.id in _ALWAYS:
                fitting.append(action)
            elif cells(action) <= left:
                left -= cells(action)
                fitting.append(action)
        return fitting
