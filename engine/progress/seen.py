"""What the logs of an attempt tell while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seen:
    """How far an attempt is and what it reports."""

    fraction: float | None = None
    """0 to 1; None: its output does not tell."""
    eta_s: float | None = None
    """Seconds to its end."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Their last values."""
    last_line: str = ""
    """Printable, of either stream, shortened."""
    best: Mapping[str, float] = field(default_factory=dict[str, float])
    curve: Sequence[float] = ()
    """What the first of the metrics has been from its beginning on, a few points."""


NOTHING = Seen()
