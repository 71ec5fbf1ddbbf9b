"""What an attempt uses of a simulated GPU's memory, as its task says in GPUDECK_SIM_MIB: "2048,20480@5" is 2 GiB from
the start, and 20 GiB from 5 seconds on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "GPUDECK_SIM_MIB"

_STEP = re.compile(r"\s*(\d{1,9})\s*(?:@\s*(\d{1,9}(?:\.\d+)?)\s*)?")


@dataclass(frozen=True, slots=True)
class Use:
    """Memory over time. Seconds of CLOCK_BOOTTIME."""

    since: float
    steps: tuple[tuple[float, int], ...]
    """From so many seconds after that on so many MiB, in order."""

    def mib(self, at: float) -> int:
        return next((mib for after, mib in reversed(self.steps) if at >= self.since + after), 0)


def steady(mib: int) -> Use:
    """The same all the time."""
    return Use(0.0, ((0.0, mib),))


def told_use(env: Mapping[str, str | None], since: float) -> Use | None:
    """None: it says nothing, or nothing that can be understood."""
    told = env.get(VARIABLE) or ""
    steps: list[tuple[float, int]] = []
    for part in told.split(","):
        found = _STEP.fullmatch(part)
        if found is None:
            return None
        steps.append((float(found[2] or 0.0), int(found[1])))
    return Use(since, tuple(sorted(steps)))
