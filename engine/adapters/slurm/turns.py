"""Which attempts the next sbatch is for: one, or all those alike, as an array. Pure.

Where the task file does not say whether, attempts share an array once there are many alike: a controller takes one call
for five hundred as easily as for one, and its administrator does not like five hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .arrays import asks
from .jobs import Job, Place

_GATHER_S = 0.2
"""How long attempts wait for others alike. Where nothing says that they are to share an array, the first does not."""
_MANY = 50
"""So many share an array where nothing says whether."""
_MOST = 500
"""Elements; clusters allow 1001 unless they say otherwise."""


class Turns:
    """A cluster that has refused an array gets single jobs from then on."""

    def __init__(self) -> None:
        self._singly = False
        self._joined: dict[tuple[str, ...], float] = {}
        """When the last of those that ask for this came."""

    def place(self, job: Job, now: float) -> Place:
        """For one that joins the queue."""
        place = self.back(job, now)
        if not place.asks:
            return place
        hurries = place.few == _MANY and now - self._joined.get(place.asks, -_GATHER_S) >= _GATHER_S
        self._joined[place.asks] = now
        return place if hurries else replace(place, not_before=now + _GATHER_S)

    def back(self, job: Job, now: float) -> Place:
        """For one that comes back to it, and has waited for others already."""
        order = job.order.job if job.order is not None else None
        wanted = None if order is None else order.options.get("array")
        if order is None or wanted is False:
            return Place((), 1, now)
        return Place(asks(order), _MANY if wanted is None else 1, now)

    def refused(self, elements: int) -> bool:
        """As many as these are too many; whether fewer of them may be taken."""
        self._singly = self._singly or elements > 1
        return elements > 1

    def next(self, ready: Sequence[tuple[Job, Place]], now: float) -> list[Job]:
        """*ready*: in order. Empty: all wait for others to join."""
        alike = Counter(place.asks for _, place in ready)
        for head, place in ready:
            if now < place.not_before:
                continue
            if self._singly or not place.asks or alike[place.asks] < place.few:
                return [head]
            return [job for job, other in ready if other.asks == place.asks][:_MOST]
        return []
