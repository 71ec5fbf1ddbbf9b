"""The live display: lines scroll by above a block that is drawn anew in place.

No thread, no alternate screen, and the cursor is never hidden: an engine that is killed leaves the terminal as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ..ports import Clock
from ..protocol.messages import DeckOpened, Message, RunFinished, Status
from .block import Frame, block_lines
from .narrate import Narrator
from .painted import Line, cell_width
from .views import as_text
from .writer import StreamWriter

REDRAW_S = 0.25
"""Least time between two drawings; lines wait for the next one."""
STATUS_PERIOD_S = 1.0
"""How often a `Status` is wanted: each moves the clocks and lets waiting lines out."""


class LiveView:
    """Lines and a block on a terminal."""

    def __init__(
        self,
        writer: StreamWriter,
        narrator: Narrator,
        *,
        colour: bool,
        clock: Clock,
        size: Callable[[], os.terminal_size],
    ) -> None:
        self._writer = writer
        self._narrator = narrator
        self._colour = colour
        self._clock = clock
        self._size = size
        self._unicode = writer.encoding.lower().replace("-", "").startswith("utf")
        self._deck = ""
        self._simulated = False
        self._status: Status | None = None
        self._lines: list[Line] = []
        self._block: list[Line] = []
        """As it stands on the terminal."""
        self._drawn_at = float("-inf")

    def show(self, message: Message) -> None:
        self._lines += self._narrator.lines(message)
        if isinstance(message, DeckOpened):
            self._deck, self._simulated = message.deck, message.simulated
        elif isinstance(message, Status):
            self._status = message
        elif isinstance(message, RunFinished):
            self._status = None
        now_s = self._clock.now().boot_s
        if now_s - self._drawn_at >= REDRAW_S or isinstance(message, RunFinished):
            self._drawn_at = now_s
            self._draw()

    def close(self) -> None:
        """What waits is shown, the block goes."""
        self._status = None
        self._draw()
        self._writer.close()

    def _draw(self) -> None:
        if self._writer.behind and not self._lines and self._status:
            return
        size = self._size()
        block = self._next_block(size)
        if not self._lines and block == self._block:
            return
        text = self._erase(size.columns) + as_text([*self._lines, *block], colour=self._colour)
        self._lines, self._block = [], block
        self._writer.write(text)

    def _next_block(self, size: os.terminal_size) -> list[Line]:
        if self._status is None:
            return []
        frame = Frame(size.columns, size.lines, self._unicode, self._simulated)
        return block_lines(self._deck, self._status, frame)

    def _erase(self, columns: int) -> str:
        """Takes the block off. A terminal that became narrower has folded its lines."""
        rows = sum(max(1, -(-cell_width(line.text) // max(1, columns))) for line in self._block)
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""


def terminal_size(fd: int) -> os.terminal_size:
    """80 x 24 where the terminal does not say."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return os.terminal_size((80, 24))
    return os.terminal_size((size.columns or 80, size.lines or 24))
