"""A moment, on the clock of deadlines and on the one of people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instant:
    boot_s: float
    """Seconds of CLOCK_BOOTTIME: deadlines."""
    wall_s: float
    """Seconds since the epoch: for people."""
