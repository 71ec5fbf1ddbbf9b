"""Logs of one or several tasks over the whole screen."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content

from ...engine.errors import DeckError
from ...engine.protocol.states import FAILED, shown_state
from ...engine.protocol.wire import TaskRow
from ..acting.actions import BY_ID, Where, bindings_of, footer_of, on
from ..drawing.format import clean, plural
from ..drawing.view import gpu_words, look, time_text
from ..logs.source import LogSource, source_of
from ..messages import OpenTask
from ..widgets.key_bar import KeyBar
from ..widgets.log.view import LogView
from ..widgets.waiting import Waiting
from .deck_screen import DeckScreen

MOST = 4
"""So many logs at most stand beside each other; tab goes from one to the next."""
PERIOD_S = 1.0
_LEAST_COLUMNS = 40
"""Of one log; with less room they stand below each other."""
_ACTS = (
    "retry", "retry_menu", "cancel", "kill", "hold", "raise_priority", "lower_priority", "copy_command", "log", "back",
    "details",
)  # fmt: skip


class LogScreen(DeckScreen):
    """A title over each log says how its task does. Where the newest attempt is shown, the next one takes its place."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(*_ACTS)]

    def __init__(self, names: Sequence[str], attempt: int = 0, *, first_error: bool = False) -> None:
        """*attempt* 0: the newest. *first_error*: begin there."""
        super().__init__()
        self._names = tuple(dict.fromkeys(names))[:MOST]
        self._views = {name: LogView(classes="log-column") for name in self._names}
        self._left_out = len(set(names)) - len(self._names)
        self._attempts = dict.fromkeys(self._names, attempt)
        """By task, the attempt that was asked for."""
        self._details: dict[str, Mapping[str, Any]] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        """State and attempt of a task as last asked for."""
        self._wants_error = first_error
        self._due = True
        self._asked_at = float("-inf")

    def compose(self) -> ComposeResult:
        yield Waiting()
        for view in self._views.values():
            view.display = False
        yield Horizontal(*self._views.values(), id="logs")
        yield KeyBar()

    def on_mount(self) -> None:
        self._show_known()
        self._show_keys()
        self.set_interval(PERIOD_S, self._tick)
        if self._left_out:
            self.gpudeck.tell(f"the first {MOST} of {len(self._names) + self._left_out} logs")

    def _show_known(self) -> None:
        """What the engine need not be asked for; that it has to be asked for the rest is said if it takes a while."""
        found = {name: self.gpudeck.tasks.log_source(name) for name, attempt in self._attempts.items() if not attempt}
        for name, source in found.items():
            if source is not None:
                view = self._views[name]
                view.display = True
                view.show(source)
        if found.get(self._names[0]):
            self._views[self._names[0]].focus()
        if not all(found.get(name) for name in self._names):
            self.query_one(Waiting).begin()

    def _show_keys(self) -> None:
        actions = [BY_ID["back"], *footer_of(on("log")), BY_ID["help"], BY_ID["leave"]]
        no_earlier = not self._active.has_earlier
        self.show_keys(action for action in actions if not (no_earlier and action.id == "log_attempt_back"))

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def on_resize(self) -> None:
        self.set_class(self.size.width < _LEAST_COLUMNS * len(self._names), "stacked")

    @property
    def _active(self) -> LogView:
        """The one that keys act on."""
        views = list(self._views.values())
        return next((view for view in views if view.has_focus_within), views[0])

    # -- from the engine ----------------------------------------------------------------------------------------------

    def show_deck(self, changed: frozenset[int] | None) -> None:
        moved = None if changed is None else {row.name for at in changed if (row := self.deck.rows.get(at)) is not None}
        for name in self._names:
            row = self.deck.row(name) if moved is None or name in moved else None
            if row is not None and self._seen.get(name) != (shown_state(row), row.attempt):
                self._seen[name] = (shown_state(row), row.attempt)
                self._due = True
        self._title()
        self._ask()

    def _tick(self) -> None:
        if self.is_current:
            self._title()
            self._ask()

    def _ask(self) -> None:
        now = time.monotonic()
        there = [name for name in self._names if self.deck.row(name) is not None]
        if self._due and there and now - self._asked_at >= PERIOD_S:
            self._due, self._asked_at = False, now
            self._look_up(there)

    @work(exclusive=True, group="show")
    async def _look_up(self, names: Sequence[str]) -> None:
        try:
            told = await self.request("show", tasks=names)
        except DeckError as error:
            if self.query_one(Waiting).display:
                self.query_one(Waiting).end(str(error))
            return
        self.query_one(Waiting).end()
        first = not self._details
        self._details.update((details["name"], details) for details in told)
        self._show()
        if first:
            self._begin()

    def _begin(self) -> None:
        """Keys go to a log once there is one."""
        if not any(view.has_focus_within for view in self._views.values()):
            self._views[self._names[0]].focus()
        if self._wants_error:
            self._wants_error = False
            for view in self._views.values():
                if view.source is not None:
                    view.first_error(unasked=True)

    def _show(self) -> None:
        for name, view in self._views.items():
            view.display = True
            if name in self._details:
                view.show(source_of(self._details[name], self._attempts[name]))
        self._show_keys()
        self._title()

    def _title(self) -> None:
        now_s = self.gpudeck.clocks.wall()
        for name, view in self._views.items():
            row = self.deck.row(name)
            if row is not None:
                text = title_of(row, view.source, now_s)
                if str(view.border_title or "") != text:
                    view.border_title = Content(text)

    # -- from the user ------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Where:
        return "log"

    def targets(self) -> tuple[str, ...]:
        active = self._active
        return tuple(name for name, view in self._views.items() if view is active)

    def act(self, action_id: str) -> None:
        if BY_ID[action_id].where == "log":
            self._active.action_act(action_id)
        else:
            super().act(action_id)

    def on_log_view_attempt_wanted(self, message: LogView.AttemptWanted) -> None:
        message.stop()
        details = self._details.get(message.task)
        view = self._views.get(message.task)
        if details is None or view is None:
            return
        newest = source_of(details)
        is_newest = newest is not None and message.attempt == newest.attempt
        self._attempts[message.task] = 0 if is_newest else message.attempt
        view.show(source_of(details, message.attempt))
        self._show_keys()
        self._title()

    def do_back(self) -> None:
        if self.is_active:
            self.dismiss()

    def do_log(self) -> None:
        self.do_back()

    def do_details(self) -> None:
        """The task's page; where that led here, back to it."""
        below = self.gpudeck.screen_stack[-2]
        if isinstance(below, DeckScreen) and below.targets() == self.targets() and below.task_name:
            self.do_back()
        else:
            self.post_message(OpenTask(self.targets()[0]))

    def do_next_pane(self) -> None:
        self._other(1)

    def do_previous_pane(self) -> None:
        self._other(-1)

    def _other(self, step: int) -> None:
        """From stream to stream, then from log to log."""
        view = self._active
        if view.next_stream(step):
            return
        views = list(self._views.values())
        views[(views.index(view) + step) % len(views)].enter(step)

    def do_pager(self) -> None:
        self._active.action_act("pager")


def title_of(row: TaskRow, source: LogSource | None, now_s: float) -> str:
    """ "● train-3 · running · attempt 2 of 3 · 12m04s · GPU 0", "◔ train-4 · pending · job 1234 · Priority"."""
    if source is not None and source.attempt != row.attempt:
        return _title_of_older(source)
    state = shown_state(row)
    parts = [f"{look(state).glyph} {clean(row.name)}", state]
    if source is not None and len(source.attempts) > 1:
        parts.append(f"attempt {source.attempt} of {source.attempts[-1]}")
    parts += [time_text(row, now_s), gpu_words(row)]
    if source is None:
        parts.append("has not run")
    if row.state in FAILED:
        parts.append(clean(row.reason))
    parts.append(clean(row.pending))
    return " · ".join(part for part in parts if part)


def _title_of_older(source: LogSource) -> str:
    """Of an attempt that is not the newest what became of it, not of its task: "✗ train-3 · attempt 1 failed (exit 1) ·
    2 attempts"."""
    glyph = look("cancelled" if source.ended == "interrupted" else source.ended or "running").glyph
    why = f"({source.why})" if source.why else ""
    told = " ".join(word for word in ("attempt", str(source.attempt), source.ended, why) if word)
    parts = [f"{glyph} {clean(source.task)}", told]
    if len(source.attempts) > 1:
        parts.append(plural(len(source.attempts), "attempt"))
    return " · ".join(parts)
