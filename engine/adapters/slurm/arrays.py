"""Attempts that ask Slurm for the same, sent as one array: each element runs its own attempt's script. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ...ports import JobOrder, StartOrder
from .parse import BATCH_MARK
from .quoting import in_one_line
from .script import extra_lines, header_lines, job_name, resources

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
