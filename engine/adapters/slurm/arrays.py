"""Attempts that ask Slurm for the same, sent as one array: which those are, and the text. Each element runs its own
attempt's script. Pure.

Where the task file does not say whether, attempts share an array once there are many alike: a controller takes one call
for five hundred as easily as for one, and its administrator does not like five hundred.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...ports import JobOrder, StartOrder
from .jobs import Job, Place
from .parse import BATCH_MARK
from .script import extra_lines, header_lines, in_one_line, job_name, resources

_BODY = """\
mapfile -t -s $(({before} + SLURM_ARRAY_TASK_ID)) -n 1 gd_line <"$0"
eval ". ${{gd_line[0]}}"
exit 125"""
"""Each element reads its own of the lines that follow: bash would take milliseconds to understand a thousand."""


def asks(job: JobOrder) -> tuple[str, ...]:
    """What sbatch is told for it: jobs of which this is equal may share an array."""
    return (*resources(job), *extra_lines(job))


def array_name(orders: Sequence[StartOrder], batch: str) -> str:
    """A name that no other job has, after what its tasks are called alike: "train" of train-0.1, train-0.2."""
    names = [order.job.task for order in orders if order.job is not None]
    alike = os.path.commonprefix(names)  # noqa: RUF071  (of letters, as is meant)
    return job_name(re.sub(r"[^A-Za-z]+$", "", alike) or "tasks", batch)


def array_script(orders: Sequence[StartOrder], batch: str, *, at_once: int | None = None) -> str:
    """The text for sbatch. *orders*: alike, their scripts written; element N of the array is the Nth. *at_once*: so
    many of them run together at most."""
    jobs = [order.job for order in orders if order.job is not None]
    limit = f"%{at_once}" if at_once else ""
    header = [
        f"--job-name={array_name(orders, batch)}",
        f"--comment={BATCH_MARK}{batch}",
        f"--array=0-{len(jobs) - 1}{limit}",
        "--no-requeue",
        "--output=/dev/null",
        *resources(jobs[0]),
    ]
    lines = ["#!/bin/bash -p", *header_lines(header), *(f"#SBATCH {line}" for line in extra_lines(jobs[0])), ""]
    before = len(lines) + len(_BODY.splitlines())
    return "\n".join([*lines, _BODY.format(before=before), *(in_one_line(job.script) for job in jobs), ""])


_GATHER_S = 0.2
"""How long attempts wait for others alike. Where nothing says that they are to share an array, the first does not."""
_MANY = 50
"""So many share an array where nothing says whether."""
_MOST = 500
"""Elements; clusters allow 1001 unless they say otherwise."""


class ArrayBatching:
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
