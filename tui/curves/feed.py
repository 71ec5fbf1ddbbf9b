"""The curves of one attempt at a time, read by a process of its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ..line_process import LineProcess
from ..link.ask import Deliver
from .lines import Curve, from_wire

Told = Callable[[tuple[Curve, ...], bool], None]
"""All curves as they are now, and whether more of them may come."""


class CurveFeed:
    """`show` an attempt; *told* is called through *deliver* whenever its curves have changed."""

    def __init__(self, deliver: Deliver, told: Told) -> None:
        self._deliver = deliver
        self._told = told
        self._order = ""
        self._reading: LineProcess | None = None

    @property
    def reads(self) -> bool:
        """Something is shown."""
        return self._reading is not None

    def show(self, order: Mapping[str, Any] | None) -> None:
        """What `curve_reader` is to read; None: nothing more. The same order again changes nothing."""
        text = "" if order is None else json.dumps(order, sort_keys=True)
        if text == self._order:
            return
        self.close()
        self._order = text
        if text:
            self._read(text)

    def close(self) -> None:
        """Returns at once. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
        self._order, self._reading = "", None

    def _read(self, order: str) -> None:
        curves: tuple[Curve, ...] = ()

        def hear(line: str) -> None:
            nonlocal curves
            with contextlib.suppress(ValueError):  # it was killed within a line
                curves = from_wire(json.loads(line))
                tell(more=True)

        def tell(*, more: bool) -> None:
            self._deliver(lambda curves=curves: self._told(curves, more) if reading is self._reading else None)

        self._reading = reading = LineProcess("curves.reader", order, hear, lambda _: tell(more=False))
        reading.start()
