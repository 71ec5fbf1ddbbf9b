"""How many tasks are in which state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by what the user calls their state."""

    total: int = 0
    waiting: int = 0
    queued: int = 0
    running: int = 0
    """starting, running, stopping and closing ones; of those that a cluster runs only such as it has begun."""
    pending: int = 0
    """Given to a cluster, which has not begun them."""
    backoff: int = 0
    succeeded: int = 0
    cached: int = 0
    failed: int = 0
    cancelled: int = 0
    pruned: int = 0
    blocked: int = 0
    unknown: int = 0

    @property
    def all_well(self) -> bool:
        """Nothing has failed or is left: what was pruned has been decided by a rule of the file."""
        return self.succeeded + self.cached + self.pruned == self.total
