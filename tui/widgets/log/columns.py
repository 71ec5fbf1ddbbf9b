"""The logs of several tasks beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal

from ...logs.source import LogSource
from .view import LogView

MOST = 4


class LogColumns(Horizontal):
    """Two to four log views; tab goes from one to the next."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.views = tuple(LogView(classes="log-column") for _ in range(MOST))

    def compose(self) -> ComposeResult:
        for view in self.views:
            view.display = False
            yield view

    def show(self, sources: Sequence[LogSource]) -> None:
        """The first four; the others have to wait for their turn."""
        for index, view in enumerate(self.views):
            source = sources[index] if index < len(sources) else None
            view.display = source is not None
            view.show(source)

    def focus_first(self) -> None:
        self.views[0].focus()
