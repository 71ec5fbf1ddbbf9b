"""The deck at a glance: header, task table, GPUs, the log of the task under the cursor, keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ...engine.errors import DeckError
from ...engine.protocol.states import ACTIVE
from ...engine.protocol.wire import GpuRow, TaskRow
from .. import pages
from ..acting import doing
from ..acting.actions import BY_ID, CHANGES, Where, bindings, footer_of, on
from ..acting.doing import Refusal
from ..drawing.format import clean
from ..logs.source import LogSource, source_of
from ..messages import OpenLogs, OpenTask
from ..widgets.cluster_pane import ClusterPane, height_of
from ..widgets.deck_header import DeckHeader
from ..widgets.filter_bar import FilterBar
from ..widgets.gpu_panes import GpuPanes
from ..widgets.host_line import HostLine
from ..widgets.key_bar import KeyBar
from ..widgets.log.stream import LogStream
from ..widgets.log.view import LogView
from ..widgets.table.task_table import TaskTable
from ..widgets.waiting import PATIENCE_S, WORDS
from .deck_screen import DeckScreen
from .pane_sizes import Chosen, Sizes, hidden, resized, sizes

_SORTS = {"eta": "time left", "file": "file order"}
"""What the table is sorted by, where its column's id does not say it."""


_SETTLE_S = 0.08
"""A cursor that rests this long has its task's log shown."""


class CursorLog:
    """Asks the engine where that log is, and has the screen's log view show it."""

    def __init__(self, screen: DeckScreen, cursor: Callable[[], str], shown: Callable[[], None]) -> None:
        """*cursor*: the name of the task under it; "": there is none. *shown*: another log is to be seen."""
        self._screen = screen
        self._cursor = cursor
        self._shown = shown
        self._of: tuple[str, int] = ("", 0)
        """Task and attempt whose log is shown."""
        self._pending = ""
        """Why that task is pending, as its title says."""
        self._settling: Timer | None = None

    def moved(self) -> None:
        """The cursor is on another task, and may go on to the next."""
        if self._settling is not None:
            self._settling.stop()
        self._settling = self._screen.set_timer(_SETTLE_S, self.follow)

    def follow(self) -> None:
        """Show the newest log of the task under the cursor. Cheap where that is shown."""
        row = self._screen.deck.row(self._cursor())
        wanted = (row.name, _logged(row)) if row is not None else ("", 0)
        pending = row.pending if row is not None else ""
        if (wanted, pending) == (self._of, self._pending):
            return
        other = wanted != self._of
        self._of, self._pending = wanted, pending
        self._view.border_title = _title(row)
        if other:
            self._screen.run_worker(self._show(row), group="cursor", exclusive=True)

    async def _show(self, row: TaskRow | None) -> None:
        """Another task's log does not stay under the name of *row* while its own is waited for."""
        if row is None or not _logged(row):
            self._view.show(None)
            return
        late = self._screen.set_timer(PATIENCE_S, lambda: self._none(row, WORDS))
        try:
            (details,) = await self._screen.request("show", tasks=[row.name])
        except DeckError as error:
            self._none(row, str(error))
        else:
            self._view.border_title = _title(self._screen.deck.row(row.name))
            self._view.show(source_of(details, _logged(row)))
            self._shown()
        finally:
            late.stop()

    def source(self, name: str) -> LogSource | None:
        """Where the newest log of a task is, if it is the one that is shown."""
        row, source = self._screen.deck.row(name), self._view.source
        if row is None or source is None or (source.task, source.attempt) != (row.name, _logged(row)):
            return None
        return source

    @property
    def _view(self) -> LogView:
        return self._screen.query_one(LogView)

    def _none(self, row: TaskRow, why: str) -> None:
        self._view.show(None)
        self._view.border_title = Content.assemble(_title(row), f" · {clean(why)}" if why else "")


def _logged(row: TaskRow) -> int:
    """The attempt whose log tells of it, maybe under another name; 0: there is none."""
    return row.attempt if row.done_by is None else row.done_by[1]


def _title(row: TaskRow | None) -> Content:
    """Whose log it is."""
    if row is None:
        return Content("")
    attempt = f" · attempt {row.attempt}" if row.attempt > 1 else "" if row.attempt else " · has not started"
    attempt = attempt if row.done_by is None else f" · {clean(row.reason)}"
    pending = f" · pending: {clean(row.pending)}" if row.pending else ""
    return Content(clean(row.name) + attempt + pending)


_MOVES = frozenset({"down", "up", "top", "bottom", "page_down", "page_up"})
_OF_PANES = frozenset({"processes", "gpu_left", "gpu_right"})


class Dashboard(DeckScreen):
    """The first screen; it stays below all others."""

    BINDINGS = bindings("tasks", "panes")

    def __init__(self) -> None:
        super().__init__()
        self._cursor_log = CursorLog(self, lambda: self._table.cursor_name, self._show_keys)
        self._sizes: Sizes | None = None
        self._chosen = Chosen()
        self._zoomed: Where | None = None
        """The pane that is seen alone."""

    def compose(self) -> ComposeResult:
        clocks, config = self.gpudeck.clocks, self.gpudeck.config
        tick_s = max(1.0, config.refresh_s)
        yield DeckHeader(now=clocks.wall)
        with Container(id="body"):
            with Container(id="tasks"):
                yield TaskTable(config.columns, now=clocks.wall, steady=clocks.steady, tick_s=tick_s)
                yield FilterBar()
            with Container(id="side"):
                yield GpuPanes(thresholds=config.thresholds)
                yield ClusterPane(now=clocks.wall)
                yield HostLine(thresholds=config.thresholds)
                yield LogView(compact=True, growth_s=config.refresh_s)
        yield KeyBar()

    def on_mount(self) -> None:
        self._table.focus()
        if unknown := self._table.unknown_columns:
            self.gpudeck.tell(f"columns: {', '.join(unknown)}: unknown; docs/screen.md lists them", error=True)

    def on_resize(self) -> None:
        self._divide()

    def on_deck_header_grown(self) -> None:
        self._divide()

    def _divide(self) -> None:
        """Room to the panes, anew where the terminal, the header, the GPUs, the cluster, the number of tasks or what
        the user chose have changed."""
        width, height = self.size
        body = height - self.query_one(DeckHeader).rows - 1
        lines = height_of(self.deck.cluster) if self.deck.on_slurm else 0
        found = sizes(width, height, body, len(self.deck.gpus), self.deck.total, lines=lines, chosen=self._chosen)
        if found == self._sizes:
            return
        self._sizes, alone = found, self._zoomed
        self.set_class(found.wide and alone is None, "wide")
        tasks, side = self.query_one("#tasks"), self.query_one("#side")
        tasks.display = alone in (None, "tasks")
        side.display = alone != "tasks" and (alone is not None or found.side > 0)
        side.styles.width = found.side if found.wide and alone is None else "100%"
        side.styles.height = "100%" if found.wide or alone else found.side
        for pane in (self.query_one(GpuPanes), self.query_one(ClusterPane)):
            pane.styles.height = "1fr" if alone or found.log is None else found.gpus or 0
        self.query_one(HostLine).display = bool(found.host) and alone is None
        self.query_one(LogView).display = alone == "log" or (alone is None and found.log is not None)
        self.query_one(LogView).styles.height = "1fr" if alone else found.log or "1fr"
        self.set_class(alone == "log" or (alone is None and found.gpus is None), "no-gpus")

    @property
    def _table(self) -> TaskTable:
        return self.query_one(TaskTable)

    # -- from the engine ----------------------------------------------------------------------------------------------

    def show_deck(self, changed: frozenset[int] | None) -> None:
        self.query_one(DeckHeader).show(self.deck)
        self._show_keys()
        self._table.show(self.deck, changed)
        self._show_gpus()
        if self.deck.head is not None:
            self.query_one(HostLine).show(self.deck.head.log_dir)
        self._divide()
        self._cursor_log.follow()

    def _show_gpus(self) -> None:
        deck, panes, at = self.deck, self.query_one(GpuPanes), self.gpudeck.clocks.steady()
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
        """By another way than the bar: what is typed in it goes on while this comes."""
        bar = self.query_one(FilterBar)
        if not bar.is_open:
            bar.value = message.text

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
        by = self._table.next_sort()
        self.gpudeck.tell(f"sorted by {_SORTS.get(by, by)}", kind="sorting")

    def do_reverse_sort(self) -> None:
        self._table.reverse()

    def do_next_pane(self) -> None:
        self._zoom(None)
        self.focus_next()

    def do_previous_pane(self) -> None:
        self._zoom(None)
        self.focus_previous()

    def do_zoom(self) -> None:
        self._zoom(None if self._zoomed else self.place)

    def _zoom(self, pane: Where | None) -> None:
        if pane != self._zoomed:
            self._zoomed, self._sizes = pane, None
            self._divide()

    def do_grow(self) -> None:
        self._resize(1)

    def do_shrink(self) -> None:
        self._resize(-1)

    def _resize(self, step: int) -> None:
        """More or less room for the pane that has the keys."""
        if self._sizes is not None and self._zoomed is None:
            self._chosen = resized(self._chosen, self._sizes, self.place, step)
            self._divide()

    def do_hide(self) -> None:
        """Hide the pane that has the keys; the table shows all again."""
        pane = self.place
        self._zoom(None)
        self._table.focus()
        self._chosen = hidden(self._chosen, pane)
        self._divide()

    def act(self, action_id: str) -> None:
        if action_id in _MOVES:
            self._table.move(action_id)
        elif action_id in _OF_PANES:
            self.query_one(GpuPanes).action_act(action_id)
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

    def do_log(self) -> None:
        if names := self.targets():
            self.post_message(OpenLogs(names))

    def do_curves(self) -> None:
        """Of the marked tasks; without marks, of all tasks of the entry that the cursor is on."""
        names, row = self.targets(), self.deck.row(self._table.cursor_name)
        if not self._table.marked and row is not None:
            names = tuple(each.name for _, each in sorted(self.deck.rows.items()) if each.entry == row.entry)
        if names:
            self.gpudeck.push_screen(pages.page("curves", names))

    def do_copy_table(self) -> None:
        self.gpudeck.copy(self._table.as_text(), f"{len(self._table.shown)} rows")

    def do_drain(self) -> None:
        self._act_on_gpu("drain", self.query_one(GpuPanes).chosen)

    def do_take(self) -> None:
        self._act_on_gpu("take", self.query_one(GpuPanes).chosen)

    def on_gpu_panes_acted(self, message: GpuPanes.Acted) -> None:
        """The GPU is the one under the cursor when the key came: keys typed behind it have moved that on by now."""
        self._act_on_gpu(message.action, message.gpu)

    def _act_on_gpu(self, action: str, gpu: GpuRow | None) -> None:
        act = doing.drain if action == "drain" else doing.take
        self.gpudeck.do(Refusal("no GPU here") if gpu is None else act(gpu))

    def on_gpu_panes_open_processes(self, message: GpuPanes.OpenProcesses) -> None:
        self.gpudeck.push_screen(pages.page("gpu_processes", message.gpu))
