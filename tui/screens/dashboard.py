"""The deck at a glance: header, task table, GPUs, the log of the task under the cursor, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ...engine.protocol.wire import TaskRow
from .. import doing_deck, pages
from ..actions import ACTIVE, BY_ID, CHANGES, Where, footer_of, on
from ..ask import Answer
from ..bindings import bindings
from ..format import clean
from ..layout import Heights, heights
from ..log_source import source_of
from ..logs.source import LogSource
from ..messages import OpenLogs, OpenTask
from ..model import DeckModel
from ..questions import Refusal
from ..widgets.deck_header import DeckHeader
from ..widgets.filter_bar import FilterBar
from ..widgets.gpu_panes import GpuPanes
from ..widgets.host_line import HostLine
from ..widgets.key_bar import KeyBar
from ..widgets.log_stream import LogStream
from ..widgets.log_view import LogView
from ..widgets.task_table import TaskTable
from ..widgets.waiting import PATIENCE_S, WORDS
from .deck_screen import DeckScreen

_MOVES = frozenset({"down", "up", "top", "bottom", "page_down", "page_up"})
_SETTLE_S = 0.08
"""A cursor that rests this long has its task's log shown."""


class Dashboard(DeckScreen):
    """The first screen; it stays below all others."""

    BINDINGS = bindings("tasks")

    def __init__(self) -> None:
        super().__init__()
        self._log_of: tuple[str, int] = ("", 0)
        """Task and attempt whose log is shown."""
        self._heights: Heights | None = None
        self._settling: Timer | None = None
        self._waiting: Timer | None = None
        """For the log of the task under the cursor."""

    def compose(self) -> ComposeResult:
        clocks = self.gpudeck.clocks
        yield DeckHeader(now=clocks.wall, id="header")
        with Container(id="body"):
            with Container(id="tasks"):
                yield TaskTable(self.gpudeck.config.columns, now=clocks.wall, steady=clocks.steady, id="table")
                yield FilterBar(id="filter")
            with Container(id="side"):
                yield GpuPanes(thresholds=self.gpudeck.config.thresholds, id="gpus")
                yield HostLine(thresholds=self.gpudeck.config.thresholds, id="host")
                yield LogView(id="log", compact=True)
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self._table.focus()
        if unknown := self._table.unknown_columns:
            self.gpudeck.tell(f"columns: {', '.join(unknown)}: unknown; docs/task-table.md lists them", error=True)

    def on_resize(self) -> None:
        self._divide()

    def on_deck_header_grown(self) -> None:
        self._divide()

    def _divide(self) -> None:
        """Rows to the panes, anew where the terminal, the header, the GPUs or the number of tasks have changed."""
        width, height = self.size
        body = height - self.query_one(DeckHeader).rows - 1
        found = heights(width, height, body, len(self.deck.gpus), self.deck.total)
        if found == self._heights:
            return
        self._heights = found
        self.set_class(found.wide, "wide")
        self.query_one("#side").styles.height = "100%" if found.wide else found.side
        self.query_one(GpuPanes).styles.height = found.gpus
        self.query_one(HostLine).display = bool(found.host)
        self.query_one(LogView).styles.height = found.log or "1fr"

    @property
    def _table(self) -> TaskTable:
        return self.query_one(TaskTable)

    # -- from the engine ----------------------------------------------------------------------------------------------

    def show_deck(self, deck: DeckModel, changed: frozenset[int] | None) -> None:
        self.query_one(DeckHeader).show(deck)
        self._show_keys()
        self._table.show(deck, changed)
        self._show_gpus(deck)
        if deck.head is not None:
            self.query_one(HostLine).show(deck.head.log_dir)
        self._divide()
        self._follow_cursor()

    def _show_gpus(self, deck: DeckModel) -> None:
        panes, at = self.query_one(GpuPanes), self.gpudeck.clocks.steady()
        if deck.head is None:
            return
        if deck.gpus:
            panes.show(deck.gpus, at)
        else:
            on_cpu = [row.name for row in deck.rows.values() if row.state in ACTIVE]
            panes.show((), at, cpu_slots=deck.head.slots, cpu_tasks=on_cpu)
        if not deck.link.live:
            panes.interrupt(at)

    def on_task_table_cursor_moved(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(_SETTLE_S, self._follow_cursor)

    def _follow_cursor(self) -> None:
        row = self.deck.row(self._table.cursor_name)
        wanted = (row.name, row.attempt) if row is not None else ("", 0)
        if wanted == self._log_of:
            return
        self._log_of = wanted
        log = self.query_one(LogView)
        log.border_title = _title(row)
        self._log_late(row if row is not None and row.attempt else None)
        if row is None or not row.attempt:
            log.show(None)
        else:
            self.gpudeck.ask("show", self._show_log, topic="cursor", tasks=[row.name])

    def _log_late(self, row: TaskRow | None) -> None:
        """Another task's log does not stay under the name of *row* while its own is waited for. None: it has come."""
        if self._waiting is not None:
            self._waiting.stop()
        self._waiting = None if row is None else self.set_timer(PATIENCE_S, lambda: self._no_log(row, WORDS))

    def _no_log(self, row: TaskRow | None, why: str) -> None:
        log = self.query_one(LogView)
        log.show(None)
        log.border_title = Content.assemble(_title(row), f" · {clean(why)}" if why else "")

    def _show_log(self, answer: Answer) -> None:
        row = self.deck.row(self._log_of[0])
        if not answer.ok or not answer.result:
            self._log_late(None)
            self._no_log(row, answer.error)
            return
        details: Mapping[str, Any] = answer.result[0]
        if details["name"] == self._log_of[0]:
            self._log_late(None)
            log = self.query_one(LogView)
            log.border_title = _title(row)
            log.show(source_of(details, self._log_of[1]))
            self._show_keys()

    def log_source(self, name: str) -> LogSource | None:
        """Where the newest log of a task is, if it is the one that is shown here."""
        row, source = self.deck.row(name), self.query_one(LogView).source
        if row is None or source is None or (source.task, source.attempt) != (row.name, row.attempt):
            return None
        return source

    # -- from the user ------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        """Marks on tasks that the filter hides do not count: nothing happens to what is not shown."""
        table = self._table
        if table.marked and (marked := tuple(name for name in table.shown if name in table.marked)):
            return marked
        return (table.cursor_name,) if table.cursor_name else ()

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def _show_keys(self) -> None:
        places: tuple[Where, ...] = ("tasks", "deck")
        no_earlier = False
        focused: Widget | None = self.focused
        if isinstance(focused, GpuPanes):
            places = ("gpus", "deck")
        elif isinstance(focused, LogStream):
            places = ("log", "deck")
            no_earlier = not self.query_one(LogView).has_earlier
        actions = footer_of(on(*places))
        self.show_keys(action for action in actions if not (no_earlier and action.id == "log_attempt_back"))

    def filter(self, text: str) -> None:
        """Show only these tasks."""
        self._table.set_filter(text)
        self.query_one(FilterBar).value = text
        self._table.focus()

    def do_filter(self) -> None:
        self._table.begin_filter()
        self.query_one(FilterBar).open(self._table.filter_text)

    def on_filter_bar_typed(self, message: FilterBar.Typed) -> None:
        self.query_one(FilterBar).say(self._table.set_filter(message.text))

    def on_task_table_filtered(self, message: TaskTable.Filtered) -> None:
        self.query_one(FilterBar).value = message.text

    def on_filter_bar_closed(self) -> None:
        self._table.end_filter()
        self._table.focus()

    @property
    def order(self) -> Sequence[str]:
        """Names as the table shows them."""
        return self._table.shown

    def go_to(self, name: str) -> None:
        """The cursor to a task, where the table shows it."""
        self._table.go_to(name)

    def do_sort(self) -> None:
        self.gpudeck.tell(f"sorted by {self._table.next_sort()}", kind="sorting")

    def do_reverse_sort(self) -> None:
        self._table.reverse()

    def do_next_pane(self) -> None:
        self.focus_next()

    def do_previous_pane(self) -> None:
        self.focus_previous()

    def act(self, action_id: str) -> None:
        if action_id in _MOVES:
            self._table.move(action_id)
        elif action_id in CHANGES and BY_ID[action_id].where == "tasks" and self._jumped():
            self.gpudeck.tell(f"the cursor has just come to {self._table.cursor_name}: nothing was done", kind="jumped")
        else:
            super().act(action_id)

    def _jumped(self) -> bool:
        """The task that the key was meant for may be another one."""
        return self._table.has_jumped and self.targets() == (self._table.cursor_name,)

    def unmark(self, names: Sequence[str]) -> None:
        """What has been done with these tasks is not to be done again."""
        self._table.unmark(names)

    def do_mark(self) -> None:
        self._table.mark()

    def do_mark_all(self) -> None:
        self._table.mark_all()

    def do_clear(self) -> None:
        self._table.clear()

    def do_details(self) -> None:
        if self._table.cursor_name:
            self.post_message(OpenTask(self._table.cursor_name))

    def on_task_table_opened(self, message: TaskTable.Opened) -> None:
        self.post_message(OpenTask(message.name))

    def do_log(self) -> None:
        if names := self.targets():
            self.post_message(OpenLogs(names))

    def do_copy_table(self) -> None:
        self.gpudeck.copy(self._table.as_text(), f"{len(self._table.shown)} rows")

    def do_drain(self) -> None:
        gpu = self.query_one(GpuPanes).chosen
        self.gpudeck.do(Refusal("no GPU here") if gpu is None else doing_deck.drain(gpu))

    def do_take(self) -> None:
        gpu = self.query_one(GpuPanes).chosen
        self.gpudeck.do(Refusal("no GPU here") if gpu is None else doing_deck.take(gpu))

    def do_processes(self) -> None:
        self.query_one(GpuPanes).action_act("processes")

    def on_gpu_panes_acted(self, message: GpuPanes.Acted) -> None:
        self.act(message.action)

    def on_gpu_panes_open_processes(self, message: GpuPanes.OpenProcesses) -> None:
        self.gpudeck.push_screen(pages.gpu_processes(message.gpu))


def _title(row: TaskRow | None) -> Content:
    """Whose log it is."""
    if row is None:
        return Content("")
    attempt = f" · attempt {row.attempt}" if row.attempt > 1 else "" if row.attempt else " · has not started"
    return Content(clean(row.name) + attempt)
