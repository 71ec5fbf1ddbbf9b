"""All failures of the deck, alike ones together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from ...engine.logs.digest import digest
from ...engine.protocol.pages import Failure, Failures
from ..acting.bindings import bindings, bindings_of
from ..drawing.errors import groups_of
from ..task.aside import Aside
from ..widgets.error_list import ErrorList
from .page import PageScreen, read

_LINES = 20
_KEPT = 200

Logs = tuple[str, str]
"""stderr and stdout of an attempt."""


class Digests:
    """*told* is called through *deliver*, which brings a call onto the UI's thread, when one has been read."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None], told: Callable[[], None]) -> None:
        self._aside: Aside[Logs, tuple[str, ...]] = Aside(_read, deliver, told, kept=_KEPT)

    def of(self, failure: Failure) -> tuple[str, ...] | None:
        """The end of what it wrote; None: not read yet, it will be told."""
        return self._aside.of((failure.err, failure.log)) if failure.log else ()

    def close(self) -> None:
        self._aside.close()


def _read(logs: Logs) -> tuple[str, ...]:
    return digest(*logs, _LINES)


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
