"""The command palette, with the keys of its field."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.command import CommandPalette

from ..settings.keys import RESERVED


class Palette(CommandPalette):
    """Leaves the keys of screen, tmux and the terminal alone."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding(",".join(sorted(RESERVED)), "nothing", show=False, priority=True)]

    def action_nothing(self) -> None:
        """Such a key means nothing here, also not to the field that is typed in."""
