"""All failures of the deck, alike ones together."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from ...engine.protocol.pages import Failures
from ..acting.bindings import bindings, bindings_of
from ..drawing.errors import groups_of
from ..task.digests import Digests
from ..widgets.error_list import ErrorList
from .page import PageScreen, read


class ErrorsScreen(PageScreen):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("errors"), *bindings_of("retry_menu")]
    OP = ACTION = "errors"
    PLACE = "errors"

    def __init__(self) -> None:
        super().__init__()
        self._digests = Digests(self.gpudeck.deliver, self._read)
        self._view = ErrorList(digest=self._digests.of, now=self.gpudeck.clocks.wall, id="errors")

    def view(self) -> Widget:
        return self._view

    def on_mount(self) -> None:
        self._view.focus()

    def on_unmount(self) -> None:
        self._digests.close()

    def _read(self) -> None:
        if self.is_mounted:
            self._view.renew()

    def take(self, result: Any) -> None:
        told = read(result, Failures)
        self._view.show(groups_of(told.failures), told.total)

    # -- actions ------------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        return () if self._view.group is None else self._view.group.names

    def do_page_open(self) -> None:
        self._view.open_log()

    def do_page_down_line(self) -> None:
        self._view.move(1)

    def do_page_up_line(self) -> None:
        self._view.move(-1)

    def do_errors_retry(self) -> None:
        self._view.retry()

    def do_errors_log(self) -> None:
        self._view.open_log()

    def do_errors_task(self) -> None:
        self._view.open_task()

    def do_errors_filter(self) -> None:
        self._view.filter_table()
