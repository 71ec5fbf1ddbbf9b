"""All failures of the deck, alike ones together; the group under the cursor with the end of its newest log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip

from ...engine.logs.digest import digest
from ...engine.protocol.alike import Alike, groups_of
from ...engine.protocol.pages import Failure, Failures
from ...engine.protocol.words import nodes_text
from ..acting.actions import bindings, bindings_of
from ..background import BackgroundReader
from ..drawing.format import clean, clipped, clock, count, cut, length, plural, ranges, width_of
from ..drawing.paragraphs import folded
from ..messages import Acted, FilterTable, OpenLogs, OpenTask
from ..widgets.line_view import LineView
from .page import PageScreen

Tone = Literal["bad", "count", "plain", "muted", "hint"]
Piece = tuple[str, Tone]

FAILED = "✗ "
GONE = "↻ "
"""Before a group of which nothing is failed any more."""
NAMED = 4
"""Tasks of a group that are named."""
REASON_LINES = 4
"""Of the reason of the group under the cursor."""
DIGEST_LINES = 12
"""Of what the log says at its end."""


def lines_of(
    group: Alike,
    width: int,
    now_s: float,
    *,
    digest: Sequence[str] | None = None,
    whole: bool = False,
    gone: bool = False,
) -> list[tuple[Piece, ...]]:
    """How many and why, which tasks, where and when; *whole*: and the end of what the newest wrote, *digest*, which is
    None until it has been read. *gone*: none of them is failed any more."""
    found = [
        *_reason(group, width, REASON_LINES if whole else 1, gone=gone),
        clipped((("  ", "muted"), (f"{_who(group)}  {_where(group, now_s)}", "muted")), width),
    ]
    if whole:
        if hint := group.newest.hint:
            found.append(clipped((("  → ", "hint"), (clean(hint), "hint")), width))
        shown = ["…"] if digest is None else list(digest[-DIGEST_LINES:]) or ["its log says nothing"]
        found += [clipped((("  │ ", "muted"), (clean(line.expandtabs(4)).rstrip(), "plain")), width) for line in shown]
    return [*found, ()]


def _reason(group: Alike, width: int, most: int, *, gone: bool) -> list[tuple[Piece, ...]]:
    """How many, and why: in *most* lines at most."""
    tone: Tone = "muted" if gone else "plain"
    mark: Piece = (GONE, "muted") if gone else (FAILED, "bad")
    number: Piece = (f"{count(len(group.failures))} × ", "muted" if gone else "count")
    indent = width_of(mark[0] + number[0])
    parts = folded(clean(group.newest.reason or group.newest.kind) + (": retried" if gone else ""), width - indent)
    first, *more = [*parts[: most - 1], " ".join(parts[most - 1 :])] if len(parts) > most else parts
    return [
        clipped((mark, number, (first, tone)), width),
        *(clipped(((" " * indent, "muted"), (part, tone)), width) for part in more),
    ]


def _who(group: Alike) -> str:
    names = [clean(name) for name in group.names[:NAMED]]
    more = len(group.failures) - len(names)
    return ", ".join(names) + (f" and {count(more)} more" if more else "")


def _where(group: Alike, now_s: float) -> str:
    gpus = sorted({gpu for failure in group.failures for gpu in failure.gpus})
    first, last = group.failures[-1].ended, group.failures[0].ended
    when = clock(last, now_s) if len(group.failures) == 1 else f"{clock(first, now_s)} to {clock(last, now_s)}"
    nodes = nodes_text(sorted({node for failure in group.failures for node in failure.nodes}))
    if nodes:
        return f"on {clean(nodes)}, {when}"
    return f"on GPU {ranges(gpus)}, {when}" if gpus else when


def summary(groups: Sequence[Alike], total: int) -> str:
    """One line about all of them."""
    shown = sum(len(group.failures) for group in groups)
    if not total:
        return "nothing has failed"
    text = f"{plural(total, 'task')} failed, in {plural(len(groups), 'way')}"
    return f"{text}; of the newest {count(shown)} alone" if shown < total else text


def filter_for(group: Alike) -> str:
    """What the table is filtered by to show the tasks of a group: what all their reasons have in common."""
    kind = group.newest.kind
    words = ["state:failed", f"reason:{kind}"] if kind and " " not in kind else ["state:failed"]
    parts = re.split(r'["#]|\s{2,}', group.gist)
    longest = max((part.strip() for part in parts), key=len, default="")
    return " ".join([*words, f'"{longest}"'] if longest else words)


DigestOf = Callable[[Failure], Sequence[str] | None]
"""The end of what an attempt wrote; None: not read yet."""
_PARTS = ("bad", "count", "plain", "muted", "hint", "cursor", "info")


class ErrorList(LineView, inherit_bindings=False):
    """Give it groups with `show`. The cursor is on a group and stays with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"errorlist--{part}" for part in _PARTS}
    ALLOW_SELECT = False
    DEFAULT_CSS = "ErrorList { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    def __init__(self, *, digest: DigestOf = lambda _: (), now: Callable[[], float]) -> None:
        """*now*: seconds since the epoch."""
        super().__init__()
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
        used = length(pieces)
        return Strip([*segments, Segment(" " * (width - used), self._style("plain") + over)], width)

    def _info(self) -> str:
        there = [group for group in self._groups if group.key != self._gone]
        return "" if self._total < 0 else summary(there, self._total)


_LINES = 20
_KEPT = 200

Logs = tuple[str, str]
"""stderr and stdout of an attempt."""


def _read(logs: Logs) -> tuple[str, ...]:
    return digest(*logs, _LINES)


class ErrorsScreen(PageScreen[ErrorList]):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("errors"), *bindings_of("retry_menu")]
    OP = ACTION = "errors"
    PLACE = "errors"
    ACTS: ClassVar[Mapping[str, Callable[[ErrorList], None]]] = {
        "page_open": ErrorList.open_log,
        "page_down_line": lambda view: view.move(1),
        "page_up_line": lambda view: view.move(-1),
        "errors_retry": ErrorList.retry,
        "errors_log": ErrorList.open_log,
        "errors_task": ErrorList.open_task,
        "errors_filter": ErrorList.filter_table,
    }

    def __init__(self) -> None:
        super().__init__()
        self._digests: BackgroundReader[Logs, tuple[str, ...]] = BackgroundReader(
            self, _read, lambda: self._view.renew(), kept=_KEPT
        )
        self._view = ErrorList(digest=self._digest, now=self.gpudeck.clocks.wall)

    def _digest(self, failure: Failure) -> tuple[str, ...] | None:
        """The end of what it wrote; None: not read yet."""
        return self._digests.of((failure.err, failure.log)) if failure.log else ()

    async def load(self) -> None:
        told = await self.told(Failures)
        self._view.show(groups_of(told.failures), told.total)

    # -- actions ------------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        return () if self._view.group is None else self._view.group.names
