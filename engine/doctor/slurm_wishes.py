"""What the jobs of a deck ask a cluster for: tasks that ask for the same are one wish. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..adapters.slurm.script import extra_lines, resources
from ..attempt.cluster import gpus_each, job_order
from ..attempt.launching import ranks_of
from ..core.gres import gpus_by_type
from ..core.spec import TaskSpec
from ..ports import JobOrder
from ..taskfile.finish import RuntimeValues, asked


@dataclass(frozen=True, slots=True)
class Wish:
    task: str
    """The first that has it."""
    arguments: tuple[str, ...]
    """For sbatch."""
    extra: tuple[str, ...]
    """Raw options, for #SBATCH lines."""
    partition: str
    """"": the cluster's default."""
    account: str
    qos: str
    gpus: int
    """On each node."""
    gpu_types: tuple[str, ...]
    array: bool
    python: str
    cwd: str
    tasks: int = 1


def wishes(tasks: Sequence[TaskSpec], log_dir: str, environ: Mapping[str, str]) -> list[Wish]:
    """The commonest first; each as of a first attempt. *environ*: for {env.NAME}, and SBATCH_ACCOUNT and
    the like."""
    found: dict[tuple[str, ...], Wish] = {}
    for task in tasks:
        wish = _wish(task, _order(task, log_dir, environ), environ)
        key = wish.arguments + wish.extra
        known = found.get(key)
        found[key] = wish if known is None else replace(known, tasks=known.tasks + 1)
    return sorted(found.values(), key=lambda wish: -wish.tasks)


def _order(task: TaskSpec, log_dir: str, environ: Mapping[str, str]) -> JobOrder:
    gpus = gpus_each(task)
    values = RuntimeValues(
        1, tuple(map(str, range(gpus))), task.resources.cpus or 1, log_dir, log_dir, sys.executable, environ
    )
    ranks = ranks_of(task, gpus, 1, cluster=True)
    return job_order(task, 1, ranks, script="", options=asked(task, values), avoid=(), own_env=())


def _wish(task: TaskSpec, order: JobOrder, environ: Mapping[str, str]) -> Wish:
    arguments = resources(order)
    gres = next((word.removeprefix("--gres=") for word in arguments if word.startswith("--gres=")), "")
    return Wish(
        task=task.name,
        arguments=tuple(arguments),
        extra=tuple(extra_lines(order)),
        partition=str(order.options.get("partition") or environ.get("SBATCH_PARTITION", "")),
        account=str(order.options.get("account") or environ.get("SBATCH_ACCOUNT", "")),
        qos=str(order.options.get("qos") or environ.get("SBATCH_QOS", "")),
        gpus=order.gpus,
        gpu_types=tuple(filter(None, gpus_by_type(gres))),
        array=bool(order.options.get("array")),
        python=task.python or "",
        cwd=task.cwd,
    )
