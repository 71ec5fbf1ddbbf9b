"""Lines of coloured pieces, as many as there are; some of them open something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from ..drawing.format import width_of
from ..drawing.paragraphs import Line, Link
from .line_view import LineView, selected_style

_PARTS = ("title", "plain", "strong", "muted", "running", "good", "bad", "warn", "link", "curve", "cursor")


class DetailView(LineView, inherit_bindings=False):
    """Give it lines with `show`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"detailview--{part}" for part in _PARTS}
    DEFAULT_CSS = "DetailView { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    @dataclass
    class Opened(Message):
        """A link was clicked, or enter pressed on it."""

        link: Link

    class Resized(Message):
        """Lines are wanted for another width."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self._link: Link | None = None
        """Where the cursor is."""

    @property
    def lines(self) -> Sequence[Line]:
        """As shown last."""
        return self._lines

    @property
    def columns(self) -> int:
        """Cells that a line may take, without the margin."""
        return max(10, self.scrollable_content_region.width - 2)

    def show(self, lines: Sequence[Line]) -> None:
        """Instead of what there was. The place stays."""
        if lines == self._lines:
            return
        changed = {at for at, (new, old) in enumerate(zip(lines, self._lines, strict=False)) if new != old}
        resized = len(lines) != len(self._lines)
        self._lines = lines
        if resized:
            self.virtual_size = Size(self.columns, len(lines))
            self.refresh()
        else:
            for at in changed:
                self.refresh_line(at)

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    # -- moves --------------------------------------------------------------------------------------------------------

    def move(self, way: str) -> None:
        """down, up, page_down, page_up, top, bottom."""
        page = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        places = {"down": top + 1, "up": top - 1, "page_down": top + page, "page_up": top - page, "top": 0}
        self.scroll_to(y=places.get(way, self.max_scroll_y), animate=False)

    def move_link(self, step: int) -> None:
        """To the next link, or the one before; from the last one to the first."""
        found = self._links()
        if not found:
            return
        links = [link for _, link in found]
        at = links.index(self._link) + step if self._link in links else 0 if step > 0 else -1
        line, self._link = found[at % len(found)]
        height = self.size.height
        if not self.scroll_offset.y <= line < self.scroll_offset.y + height:
            self.scroll_to(y=line - height // 2, animate=False)
        self.refresh()

    def open_link(self) -> None:
        """What the cursor is on."""
        if self._link is not None and self._link in [link for _, link in self._links()]:
            self.post_message(self.Opened(self._link))

    def clear_link(self) -> bool:
        """Take the cursor away. False: there was none."""
        had, self._link = self._link is not None, None
        self.refresh()
        return had

    def _links(self) -> list[tuple[int, Link]]:
        """Each one once, with its line."""
        found: dict[Link, int] = {}
        for at, line in enumerate(self._lines):
            for span in line:
                if span.link is not None:
                    found.setdefault(span.link, at)
        return [(at, link) for link, at in found.items()]

    def on_click(self, event: events.Click) -> None:
        at, x = event.y + self.scroll_offset.y, event.x - 1
        for span in self._lines[at] if 0 <= at < len(self._lines) else ():
            wide = width_of(span.text)
            if 0 <= x < wide and span.link is not None:
                self._link = span.link
                self.post_message(self.Opened(span.link))
                self.refresh()
            x -= wide

    # -- drawing ------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        at = y + self.scroll_offset.y
        plain = self._style("plain")
        if at >= len(self._lines):
            return Strip.blank(width, plain)
        pieces = [Segment(" ", plain)]
        for span in self._lines[at]:
            style = self._style(span.tone)
            if span.link is not None and span.link == self._link:
                style += self._style("cursor")
            pieces.append(Segment(span.text, style))
        strip = Strip(self._selected(pieces, at))
        return strip.crop_extend(0, width, plain).apply_offsets(0, at)

    # -- selection ----------------------------------------------------------------------------------------------------

    def _selected(self, pieces: list[Segment], at: int) -> list[Segment]:
        """With what the mouse has marked of the line."""
        selection = self.text_selection
        marked = None if selection is None else selection.get_span(at)
        if marked is None:
            return pieces
        first, last = marked
        style = selected_style(self.screen)
        found: list[Segment] = []
        start = 0
        for text, look, _ in pieces:
            end = start + len(text)
            low = min(max(first, start), end) - start
            high = max(low, (end if last == -1 else min(max(last, start), end)) - start)
            parts = ((text[:low], look), (text[low:high], (look or Style.null()) + style), (text[high:], look))
            found += [Segment(part, looks) for part, looks in parts if part]
            start = end
        return found

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        text = "\n".join(" " + "".join(span.text for span in line) for line in self._lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        self.refresh()
