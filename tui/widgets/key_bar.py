"""The last line: what the keys do here. Each can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from ..acting.actions import Action, shown

_ALWAYS = ("help", "leave")


class KeyBar(Widget):
    """Redrawn when other actions are shown, never for a move of the cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-bar--key", "key-bar--label"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.auto_links = False  # keys and labels have styles of their own
        self._actions: Sequence[Action] = ()
        self._keys: dict[str, str] = {}

    def show(self, actions: Sequence[Action], keys: dict[str, str]) -> None:
        """*keys*: those that the user's configuration has changed, by action."""
        if (list(actions), keys) != (list(self._actions), self._keys):
            self._actions, self._keys = tuple(actions), keys
            self.refresh()

    def render(self) -> RenderResult:
        key_style = self.get_component_rich_style("key-bar--key")
        label_style = self.get_component_rich_style("key-bar--label")
        line = Text(no_wrap=True, overflow="ellipsis", end="")
        for action in self._fitting(self.size.width):
            click = Style(meta={"@click": f"screen.act('{action.id}')"})
            line.append(f" {self._key(action)} ", key_style + click)
            line.append(f"{action.label} ", label_style + click)
        return line

    def _key(self, action: Action) -> str:
        return shown(self._keys[action.id].split(",")[0]) if action.id in self._keys else action.shown_key

    def _fitting(self, width: int) -> list[Action]:
        """The first ones for which there is room; help and leave come before the rest."""

        def cells(action: Action) -> int:
            return len(self._key(action)) + len(action.label) + 3

        left = width - sum(cells(action) for action in self._actions if action.id in _ALWAYS)
        fitting: list[Action] = []
        for action in self._actions:
            if action.id in _ALWAYS:
                fitting.append(action)
            elif cells(action) <= left:
                left -= cells(action)
                fitting.append(action)
        return fitting
