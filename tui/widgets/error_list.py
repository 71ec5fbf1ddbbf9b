"""All failures, those that are alike together; the group under the cursor with the end of its newest log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip

from ...engine.protocol.pages import Failure
from ..drawing.errors import FAILED, GONE, Alike, Piece, filter_for, lines_of, summary
from ..drawing.format import cut, width_of
from ..messages import Acted, FilterTable, OpenLogs, OpenTask
from .line_view import LineView

DigestOf = Callable[[Failure], Sequence[str] | None]
"""The end of what an attempt wrote; None: not read yet."""
_PARTS = ("bad", "count", "plain", "muted", "hint", "cursor", "info")


class ErrorList(LineView, inherit_bindings=False):
    """Give it groups with `show`. The cursor is on a group and stays with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"errorlist--{part}" for part in _PARTS}
    ALLOW_SELECT = False
    DEFAULT_CSS = "ErrorList { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    def __init__(
        self,
        *,
        digest: DigestOf = lambda _: (),
        now: Callable[[], float] = time.time,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """*now*: seconds since the epoch."""
        super().__init__(id=id)
        self._digest = digest
        self._now = now
        self._groups: list[Alike] = []
        self._gone: tuple[str, str] | None = None
        """Key of the group that is shown only because the cursor is on it: what the cursor is on does not change by
        itself, lest a key that was meant for one group does something to another."""
        self._total = -1
        self._chosen = 0
        self._lines: list[tuple[int, tuple[Piece, ...]]] = []
        """Place of the group, and what the line says."""

    @property
    def group(self) -> Alike | None:
        """Under the cursor."""
        return self._groups[self._chosen] if self._chosen < len(self._groups) else None

    def show(self, groups: Sequence[Alike], total: int) -> None:
        """*total*: failed tasks of the deck, whether their failures are among these or not."""
        kept = self.group
        self._groups, self._total, self._gone = list(groups), total, None
        place = None if kept is None else next((at for at, each in enumerate(groups) if each.key == kept.key), None)
        if kept is not None and place is None:
            place = min(self._chosen, len(groups))
            self._groups.insert(place, kept)
            self._gone = kept.key
        self._chosen = place or 0
        self.renew()

    def renew(self) -> None:
        """What the logs say may have been read meanwhile."""
        width, now_s = max(1, self._area.width), self._now()
        self._lines = []
        for place, group in enumerate(self._groups):
            whole = place == self._chosen
            digest = self._digest(group.newest) if whole else None
            gone = group.key == self._gone
            made = lines_of(group, width, now_s, digest=digest, whole=whole, gone=gone)
            self._lines += [(place, line) for line in made]
        # The last line is over the list, not part of it.
        self.virtual_size = Size(width, len(self._lines) + 1)
        self.refresh()

    def on_resize(self) -> None:
        self.renew()

    # -- moves and acts -----------------------------------------------------------------------------------------------

    def move(self, step: int) -> None:
        self._choose(self._chosen + step)

    def _choose(self, place: int) -> None:
        chosen = self._groups[min(max(place, 0), len(self._groups) - 1)] if self._groups else None
        if self._gone and chosen is not None and chosen.key != self._gone:
            self._groups = [group for group in self._groups if group.key != self._gone]
            self._gone = None
        self._chosen = 0 if chosen is None else self._groups.index(chosen)
        self.renew()
        # Scrollbars follow the new height a moment later, and without them nothing scrolls.
        self.call_after_refresh(self._bring_into_view)

    def _bring_into_view(self) -> None:
        lines = [at for at, (owner, _) in enumerate(self._lines) if owner == self._chosen]
        if not lines:
            return
        top, height = self.scroll_offset.y, max(1, self._area.height - 1)
        if lines[0] < top or len(lines) >= height:
            self.scroll_to(y=lines[0], animate=False)
        elif lines[-1] >= top + height:
            self.scroll_to(y=lines[-1] - height + 1, animate=False)

    def open_log(self) -> None:
        """The newest one's, at its first error."""
        if self.group is not None:
            newest = self.group.newest
            self.post_message(OpenLogs((newest.task,), newest.attempt, first_error=True))

    def open_task(self) -> None:
        if self.group is not None:
            self.post_message(OpenTask(self.group.newest.task))

    def retry(self) -> None:
        """All tasks of the group."""
        if self.group is not None:
            self.post_message(Acted("retry", self.group.names))

    def filter_table(self) -> None:
        if self.group is not None:
            self.post_message(FilterTable(filter_for(self.group)))

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if event.y < self._area.height - 1 and line < len(self._lines):
            self._choose(self._lines[line][0])
            if event.chain == 2:
                self.open_log()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width = self._area.width
        if y == self._area.height - 1:
            return self._foot(self._info())
        line = y + self.scroll_offset.y
        if not self._lines and y == self._area.height // 3:
            text = cut(self._info(), width)
            return Strip([Segment(text.center(width), self._style("muted"))], width)
        if line >= len(self._lines):
            return Strip.blank(width, self._style("plain"))
        place, pieces = self._lines[line]
        head = place == self._chosen and bool(pieces) and pieces[0][0] in (FAILED, GONE)
        cursor = self._style("cursor")
        over = Style(bgcolor=cursor.bgcolor, reverse=cursor.reverse or None) if head else Style.null()
        segments = [Segment(text, self._style(tone) + over) for text, tone in pieces]
        used = sum(width_of(text) for text, _ in pieces)
        return Strip([*segments, Segment(" " * (width - used), self._style("plain") + over)], width)

    def _info(self) -> str:
        there = [group for group in self._groups if group.key != self._gone]
        return "" if self._total < 0 else summary(there, self._total)
