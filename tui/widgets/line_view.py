"""What views have in common that draw line by line in the styles of their component classes."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..drawing.format import cut, fit


def selected_style(screen: Screen[object]) -> Style:
    """Of text that the mouse has marked: a background alone. The theme's own colour of such text is a transparent one,
    which Rich would draw as the background."""
    return Style(bgcolor=screen.get_component_rich_style("screen--selection").bgcolor)


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """A class `FooView` of this kind has component classes `fooview--PART`."""

    def __init__(self) -> None:
        super().__init__()
        self._styles: dict[str, Style] = {}

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    @property
    def _area(self) -> Size:
        """Without scrollbars."""
        return self.scrollable_content_region.size

    def _style(self, part: str, *, partial: bool = False) -> Style:
        """Of a part, which is always asked for in the same way. *partial*: only what its class itself says."""
        known = self._styles.get(part)
        if known is None:
            name = f"{type(self).__name__.lower()}--{part}"
            known = self._styles[part] = self.get_component_rich_style(name, partial=partial)
        return known

    def _foot(self, text: str) -> Strip:
        """A line that does not scroll, below those that do."""
        width = self._area.width
        return Strip([Segment(fit(cut(f" {text}", width), width), self._style("info"))], width)
