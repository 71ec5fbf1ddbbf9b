"""The deck at a glance: header, task table, GPUs, the log of the task under the cursor, keys."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget

from ...engine.protocol.states import ACTIVE
from .. import pages
from ..acting import doing_deck
from ..acting.actions import BY_ID, CHANGES, Where, footer_of, on
from ..acting.bindings import bindings
from ..acting.questions import Refusal
from ..drawing.layout import Heights, heights
from ..gpus.cluster import height_of
from ..logs.source import LogSource
from ..messages import OpenLogs, OpenTask
from ..model import DeckModel
from ..widgets.cluster_pane import ClusterPane
from ..widgets.deck_header import DeckHeader
from ..widgets.filter_bar import FilterBar
from ..widgets.gpu_panes import GpuPanes
from ..widgets.host_line import HostLine
from ..widgets.key_bar import KeyBar
from ..widgets.log.stream import LogStream
from ..widgets.log.view import LogView
from ..widgets.table.task_table import TaskTable
from .cursor_log import CursorLog
from .deck_screen import DeckScreen

_MOVES = frozenset({"down", "up", "top", "bottom", "page_down", "page_up"})


class Dashboard(DeckScreen):
    """The first screen; it stays below all others."""

    BINDINGS = bindings("tasks")

    def __init__(self) -> None:
        super().__init__()
        self._cursor_log = CursorLog(self, lambda: self._table.cursor_name, self._show_keys)
        self._heights: Heights | None = None

    def compose(self) -> ComposeResult:
        clocks, config = self.gpudeck.clocks, self.gpudeck.config
        tick_s = max(1.0, config.refresh_s)
        yield DeckHeader(now=clocks.wall, id="header")
        with Container(id="body"):
            with Container(id="tasks"):
                yield TaskTable(config.columns, now=clocks.wall, steady=clocks.steady, tick_s=tick_s, id="table")
                yield FilterBar(id="filter")
            with Container(id="side"):
                yield GpuPanes(thresholds=config.thresholds, id="gpus")
                yield ClusterPane(now=clocks.wall, id="cluster")
                yield HostLine(thresholds=config.thresholds, id="host")
                yield LogView(id="log", compact=True, growth_s=config.refresh_s)
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
        """Rows to the panes, anew where the terminal, the header, the GPUs, the cluster or the number of tasks have
        changed."""
        width, height = self.size
        body = height - self.query_one(DeckHeader).rows - 1
        lines = height_of(self.deck.cluster) if self.deck.on_slurm else 0
        found = heights(width, height, body, len(self.deck.gpus), self.deck.total, lines=lines)
        if found == self._heights:
            return
        self._heights = found
        self.set_class(found.wide, "wide")
        self.query_one("#side").styles.height = "100%" if found.wide else found.side
        self.query_one(GpuPanes).styles.height = self.query_one(ClusterPane).styles.height = found.gpus
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
        self._cursor_log.follow()

    def _show_gpus(self, deck: DeckModel) -> None:
        panes, at = self.query_one(GpuPanes), self.gpudeck.clocks.steady()
        if deck.head is None:
            return
        self.set_class(deck.on_slurm, "slurm")
        if deck.on_slurm:
            self.query_one(ClusterPane).show(deck.cluster, told=deck.link.live)
            return
        if deck.gpus:
            panes.show(deck.gpus, at)
        else:
            on_cpu = [row.name for row in deck.rows.values() if row.state in ACTIVE]
            panes.show((), at, cpu_slots=deck.head.slots, cpu_tasks=on_cpu)
        if not deck.link.live:
            panes.interrupt(at)

    def on_task_table_cursor_moved(self) -> None:
        self._cursor_log.moved()

    def log_source(self, name: str) -> LogSource | None:
        """Where the newest log of a task is, if it is the one that is shown here."""
        return self._cursor_log.source(name)

    # -- from the user ------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        """Marks on tasks that the filter hides do not count: nothing happens to what is not shown."""
        table = self._table
        if table.marked and (marked := tuple(name for name in table.shown if name in table.marked)):
            return marked
        return (table.cursor_name,) if table.cursor_name else ()

    def on_descendant_focus(self) -> None:
        self._show_keys()

    @property
    def place(self) -> Where:
        """By the pane that has the keys."""
        focused: Widget | None = self.focused
        return "gpus" if isinstance(focused, GpuPanes) else "log" if isinstance(focused, LogStream) else "tasks"

    def _show_keys(self) -> None:
        place = self.place
        no_earlier = place == "log" and not self.query_one(LogView).has_earlier
        actions = footer_of(on(place, "deck"))
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

    def do_gpu_left(self) -> None:
        self.query_one(GpuPanes).action_act("gpu_left")

    def do_gpu_right(self) -> None:
        self.query_one(GpuPanes).action_act("gpu_right")

    def on_gpu_panes_acted(self, message: GpuPanes.Acted) -> None:
        self.act(message.action)

    def on_gpu_panes_open_processes(self, message: GpuPanes.OpenProcesses) -> None:
        self.gpudeck.push_screen(pages.gpu_processes(message.gpu))
