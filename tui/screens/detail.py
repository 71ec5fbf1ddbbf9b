"""Everything about one task: why it waits, its attempts, what it runs, how its metrics go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from ...engine.errors import DeckError
from ...engine.protocol.states import ACTIVE, WAITING
from ...engine.protocol.wire import TaskRow
from ..acting.actions import BY_ID, Action, Where, bindings, bindings_of, footer_of, on
from ..drawing.format import width_of
from ..drawing.paragraphs import Line, Link, Tone, paragraph
from ..logs.source import neighbour
from ..messages import OpenLogs, OpenTask
from ..widgets.deck_header import DeckHeader
from ..widgets.key_bar import KeyBar
from ..widgets.line_view import LineView, selected_style
from ..widgets.waiting import PATIENCE_S, WORDS
from .deck_screen import DeckScreen
from .detail_lines import Gathering, lines_of

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

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[Line] = ()
        """As shown last."""
        self._link: Link | None = None
        """Where the cursor is."""

    @property
    def columns(self) -> int:
        """Cells that a line may take, without the margin."""
        return max(10, self.scrollable_content_region.width - 2)

    def show(self, lines: Sequence[Line]) -> None:
        """Instead of what there was. The place stays."""
        if lines == self.lines:
            return
        changed = {at for at, (new, old) in enumerate(zip(lines, self.lines, strict=False)) if new != old}
        resized = len(lines) != len(self.lines)
        self.lines = lines
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

    def clear_link(self) -> None:
        """Take the cursor away."""
        self._link = None
        self.refresh()

    def _links(self) -> list[tuple[int, Link]]:
        """Each one once, with its line."""
        found: dict[Link, int] = {}
        for at, line in enumerate(self.lines):
            for span in line:
                if span.link is not None:
                    found.setdefault(span.link, at)
        return [(at, link) for link, at in found.items()]

    def on_click(self, event: events.Click) -> None:
        at, x = event.y + self.scroll_offset.y, event.x - 1
        for span in self.lines[at] if 0 <= at < len(self.lines) else ():
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
        if at >= len(self.lines):
            return Strip.blank(width, plain)
        pieces = [Segment(" ", plain)]
        for span in self.lines[at]:
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
        text = "\n".join(" " + "".join(span.text for span in line) for line in self.lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002
        self.refresh()


PERIOD_S = 1.0
"""It is asked and drawn at most this often while nobody presses a key."""
_MOVES = ("down", "up", "top", "bottom", "page_down", "page_up")
_ACTS = (
    "log", "retry", "retry_menu", "cancel", "kill", "hold", "raise_priority", "lower_priority", "copy_command", "pager",
)  # fmt: skip


class Detail(DeckScreen):
    """Goes on to other tasks by itself; back leads to where it was before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("detail"),
        *bindings_of(*_MOVES, *_ACTS, "back", "page_open", "details"),
    ]

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task_name = task
        self._before: list[str] = []
        """Tasks that links have led away from."""
        self._row: TaskRow | None = None
        self._asked_at = float("-inf")
        self._due = True
        self._seen: object = None
        """What of the row the last answer was asked for."""
        self._gathering = Gathering(self, self._draw)
        self._patience: Timer | None = None
        """Until it is said that there is no answer."""

    @property
    def reads(self) -> bool:
        """A process reads curves for it."""
        return self._gathering.reads

    def compose(self) -> ComposeResult:
        yield DeckHeader(now=self.gpudeck.clocks.wall)
        yield DetailView()
        yield KeyBar()

    def on_mount(self) -> None:
        self._view.focus()
        self.show_keys(_footer())
        self.set_interval(PERIOD_S, self._tick)
        self._wait()

    def on_screen_suspend(self) -> None:
        self._gathering.rest()

    @property
    def _view(self) -> DetailView:
        return self.query_one(DetailView)

    # -- from the engine ----------------------------------------------------------------------------------------------

    def show_deck(self, changed: frozenset[int] | None) -> None:
        self.query_one(DeckHeader).show(self.deck)
        self.show_keys(_footer())
        row = self.deck.row(self.task_name)
        if row is None:
            return self._vanish()
        seen = _asked_for(row)
        # What keeps a task waiting lies with others.
        self._due = self._due or changed is None or seen != self._seen or (row.state in WAITING and bool(changed))
        if row != self._row or changed is None:
            self._row = row
            self._draw()
        self._ask()
        return None

    def _vanish(self) -> None:
        """The task is not in the deck any more."""
        if self.deck.whole and self._row is not None:
            self._row = None
            self.gpudeck.tell(f"{self.task_name} is not in the deck any more")

    def _ask(self) -> None:
        now = time.monotonic()
        if self._due and now - self._asked_at >= PERIOD_S and self._row is not None and self.is_current:
            self._due, self._asked_at, self._seen = False, now, _asked_for(self._row)
            self._look_up(self.task_name)

    @work(exclusive=True, group="show")
    async def _look_up(self, name: str) -> None:
        try:
            (details,) = await self.request("show", tasks=[name])
        except DeckError as error:
            self._fail(str(error))
            return
        if name == self.task_name:
            self._gathering.take(details)
            self._read()
            self._draw()

    def _fail(self, why: str) -> None:
        """What is known stays; it is asked again."""
        self._due = True
        if self._patience is not None:
            self._patience.stop()
        self._say_instead(why, "bad")

    def _wait(self) -> None:
        """That there is no answer is said once it has taken a while."""
        if self._patience is not None:
            self._patience.stop()
        text = f"{self.task_name}: {WORDS}"
        self._patience = self.set_timer(PATIENCE_S, lambda: self._say_instead(text, "muted"))

    def _say_instead(self, text: str, tone: Tone) -> None:
        if self._gathering.attempts.details is None:
            self._view.show(paragraph(text, self._view.columns, tone))

    def _tick(self) -> None:
        if not self.is_current:
            return
        self._ask()
        self._gathering.look_again()
        if self._row is not None and self._row.state in ACTIVE:
            self._draw()

    def _read(self) -> None:
        """What the attempt that is looked at has written."""
        started = None if self._row is None else self._row.started
        self._gathering.read(self.task_name, started, curves=self.is_current)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def on_detail_view_resized(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self.is_there or self._row is None:
            return
        known = self._gathering.known(self._row, self._memory_mib())
        if known is not None:
            self._view.show(lines_of(known, self._view.columns, self.gpudeck.clocks.wall()))

    def _memory_mib(self) -> int | None:
        """On all GPUs now; None: not known."""
        processes = (process for gpu in self.deck.gpus for process in gpu.processes if process.task == self.task_name)
        known = [process.used_mib for process in processes if process.used_mib is not None]
        return sum(known) if known else None

    # -- from the user ------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Where:
        return "detail"

    def targets(self) -> tuple[str, ...]:
        return (self.task_name,)

    def act(self, action_id: str) -> None:
        if action_id in _MOVES:
            self._view.move(action_id)
        else:
            super().act(action_id)

    def open(self, task: str) -> None:
        """Another task's page in place of this one."""
        self.task_name, self._row = task, None
        self._gathering.attempts.forget()
        self._due, self._asked_at = True, float("-inf")
        self._view.clear_link()
        self._view.move("top")
        self._wait()
        self.show_deck(None)

    def on_open_task(self, message: OpenTask) -> None:
        message.stop()
        if message.name != self.task_name and self.deck.row(message.name) is not None:
            self._before.append(self.task_name)
            self.open(message.name)

    def on_detail_view_opened(self, message: DetailView.Opened) -> None:
        kind, text = message.link
        if kind == "task":
            self.post_message(OpenTask(text))
        else:
            self._choose(int(text))

    def _choose(self, attempt: int) -> None:
        self._gathering.look_at(attempt)
        self._read()
        self._draw()

    def do_back(self) -> None:
        if self._before:
            self.open(self._before.pop())
        else:
            self.do_details()

    def do_details(self) -> None:
        """The key that opens the page leaves it, whatever has been opened from it."""
        if self.is_active:
            self.gpudeck.tasks.go_to(self.task_name)
            self.dismiss()

    def do_page_open(self) -> None:
        self._view.open_link()

    def do_next_pane(self) -> None:
        self._view.move_link(1)

    def do_previous_pane(self) -> None:
        self._view.move_link(-1)

    def do_detail_next(self) -> None:
        self._neighbour(1)

    def do_detail_previous(self) -> None:
        self._neighbour(-1)

    def _neighbour(self, step: int) -> None:
        order = list(self.gpudeck.tasks.order)
        at = order.index(self.task_name) + step if self.task_name in order else 0
        if 0 <= at < len(order):
            self.open(order[at])
        else:
            self.gpudeck.tell("that is the last task" if step > 0 else "that is the first task")

    def do_detail_attempt_back(self) -> None:
        self._step(-1)

    def do_detail_attempt_on(self) -> None:
        self._step(1)

    def _step(self, step: int) -> None:
        attempts = self._gathering.attempts
        number = neighbour(attempts.number, attempts.numbers, step)
        if number is None:
            self.gpudeck.tell("that is the newest attempt" if step > 0 else "that is the first attempt")
        else:
            self._choose(number)

    def do_log(self) -> None:
        self.post_message(OpenLogs((self.task_name,), self._gathering.attempts.wanted))

    def do_pager(self) -> None:
        self.page_log(self._gathering.attempts.details or {}, self._gathering.attempts.number)


def _asked_for(row: TaskRow) -> object:
    """What of a row has to change for the engine to be asked again; not how far it is."""
    return row.state, row.attempt, row.held, row.changed, row.stale, row.priority, row.retries_used, row.reason


def _footer() -> list[Action]:
    acts = [BY_ID[name] for name in ("log", "back", "retry", "cancel")]
    return [*acts, *footer_of(on("detail")), BY_ID["copy_command"], BY_ID["help"], BY_ID["leave"]]
