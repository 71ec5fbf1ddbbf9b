"""An app that sends a terminal only what differs from what that shows already."""

from __future__ import annotations

from typing import Any

from textual import constants, events
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.driver import Driver
from textual.screen import Screen

from .painted import Difference, Painted
from .terminal import Terminal


class PaintedApp(App[str]):
    def __init__(self) -> None:
        super().__init__()
        self._painted = Painted()
        self._painted_screen: Screen[Any] | None = None
        self.has_missed = False
        """Something was drawn while the terminal was behind, and never sent, as a screen that was opened meanwhile:
        whoever lets go of the terminal again has it drawn anew."""

    def get_driver_class(self) -> type[Driver]:
        """Of our own, but for a browser."""
        return super().get_driver_class() if constants.DRIVER else Terminal

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if self._batch_count and renderable is not None:
            self.has_missed = True
        super()._display(screen, self._differing(screen, renderable))  # pyright: ignore[reportUnknownMemberType]

    def _differing(self, screen: Screen[Any], drawn: Any) -> Any:
        """Of what has been drawn; None: nothing."""
        if not isinstance(drawn, CompositorUpdate) or self._batch_count or self.is_headless:
            return drawn
        if screen is not self._painted_screen:  # what others have written over the terminal goes as well
            self._painted_screen = screen
            self._painted.forget()
        text = self._painted.difference(drawn, self.console)
        if text is None:
            return drawn
        moved = self.screen.outer_size.clamp_offset(self.cursor_position) != self._previous_cursor_position
        return Difference(text) if text or moved else None

    def on_resize(self, event: events.Resize) -> None:
        """Also after the terminal was somebody else's: where the size is as it was, nobody else draws it anew."""
        self._painted.forget()
        if self._size == event.size and self.screen_stack:
            self.screen.refresh()
