"""GPUs over time: every attempt of the deck, where it ran, how it ended, and the gaps between."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from textual.widget import Widget

from ...engine.protocol.pages import AttemptRow, TimelinePage
from ..acting.bindings import bindings
from ..link.ask import Answer
from ..model import DeckModel
from ..timeline.lanes import Lane, lanes_of
from ..widgets.timeline_view import TimelineView
from .page import PageScreen, read

_AT_ONCE = 2000
"""Attempts up to which lanes are made at once; more are made aside."""
_AGAIN_S = 2.0
"""Asked again from this long before the last answer on: ends are written a moment after they happen."""
_SHARE = 0.05
"""Of a core that making lanes may take of a large deck."""


class TimelineScreen(PageScreen):
    BINDINGS = bindings("timeline")
    OP = ACTION = "timeline"
    PLACE = "timeline"

    def __init__(self) -> None:
        super().__init__()
        self._attempts: dict[tuple[str, int], AttemptRow] = {}
        self._since = 0.0
        self._told_at = 0.0
        self._view = TimelineView(now=self.gpudeck.clocks.wall, id="timeline")
        self._not_before = 0.0

    def view(self) -> Widget:
        return self._view

    def on_mount(self) -> None:
        self._view.focus()
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        if self.is_current and self._view.moves:
            self._view.tick()

    # -- asking -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        if time.monotonic() < self._not_before:
            self._asking, self._due = False, True
        else:
            self._ask(0)

    def _ask(self, start: int) -> None:
        self.gpudeck.ask("timeline", self._page, topic="timeline", since=self._since, start=start)

    def _page(self, answer: Answer) -> None:
        if not answer.ok or not self.is_mounted:
            self._answered(answer)
            return
        page = read(answer.result, TimelinePage)
        self._attempts.update(((row.task, row.attempt), row) for row in page.attempts)
        self._told_at = self._told_at or page.now
        if page.next is not None:
            self._ask(page.next)
            return
        self._since, self._told_at = self._told_at - _AGAIN_S, 0.0
        self._answered(answer)

    def take(self, result: Any) -> None:  # noqa: ARG002 -- its pages have been taken one by one
        attempts, gpus = list(self._attempts.values()), self._gpus(self.deck)
        if len(attempts) <= _AT_ONCE:
            self._view.show(lanes_of(attempts, gpus))
            return
        self._asking = True

        def work() -> None:
            begun = time.monotonic()
            lanes = lanes_of(attempts, gpus)
            took_s = time.monotonic() - begun
            self.gpudeck.deliver(lambda: self._made(lanes, took_s))

        threading.Thread(target=work, name="gpudeck-lanes", daemon=True).start()

    def _made(self, lanes: list[Lane], took_s: float) -> None:
        self._asking = False
        self._not_before = time.monotonic() + took_s / _SHARE
        if self.is_mounted:
            self._view.show(lanes)

    @staticmethod
    def _gpus(deck: DeckModel) -> Sequence[int]:
        return [gpu.index for gpu in deck.gpus]

    # -- actions ------------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        return (self._view.task_name,) if self._view.task_name else ()

    def do_page_open(self) -> None:
        self._view.open()

    def do_page_down_line(self) -> None:
        self._view.move_lane(1)

    def do_page_up_line(self) -> None:
        self._view.move_lane(-1)

    def do_timeline_before(self) -> None:
        self._view.move_attempt(-1)

    def do_timeline_behind(self) -> None:
        self._view.move_attempt(1)

    def do_timeline_closer(self) -> None:
        self._view.zoom(1)

    def do_timeline_wider(self) -> None:
        self._view.zoom(-1)

    def do_timeline_back(self) -> None:
        self._view.pan(-1)

    def do_timeline_on(self) -> None:
        self._view.pan(1)

    def do_timeline_now(self) -> None:
        self._view.follow()

    def do_timeline_all(self) -> None:
        self._view.show_all()
