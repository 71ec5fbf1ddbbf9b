"""What time it is for the screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds; all that is drawn goes by these."""

    wall: Callable[[], float] = time.time
    """Since the epoch."""
    steady: Callable[[], float] = time.monotonic
    """Of a clock that runs on."""
