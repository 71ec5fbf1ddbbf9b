"""What the jobs of a deck ask a cluster for: tasks that ask for the same are one wish. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from ..core.spec import TaskSpec

_TYPE = re.compile(r"\bgpu:([^:,(\x00{]+):")
_SLOTS = re.compile("[\x00{}]")
"""What is only known at a start."""
_SLOT = re.compile("\x00?\\{num_gpus\\}")
_OPTIONS = ("partition", "account", "qos", "constraint", "nodelist", "exclude")


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


def wishes(tasks: Sequence[TaskSpec]) -> list[Wish]:
    """The commonest first."""
    found: dict[tuple[str, ...], Wish] = {}
    for task in tasks:
        wish = _wish(task)
        key = wish.arguments + wish.extra
        known = found.get(key)
        found[key] = wish if known is None else replace(known, tasks=known.tasks + 1)
    return sorted(found.values(), key=lambda wish: -wish.tasks)


def _wish(task: TaskSpec) -> Wish:
    options = dict(task.extras.slurm)
    gpus = task.resources.gpus if isinstance(task.resources.gpus, int) else 0
    gres = _gres(options, gpus)
    return Wish(
        task=task.name,
        arguments=tuple(_arguments(task, options, gres)),
        extra=tuple([line.removeprefix("#SBATCH").strip() for line in _lines(options) if not _SLOTS.search(line)]),
        partition=_text(options, "partition"),
        account=_text(options, "account"),
        qos=_text(options, "qos"),
        gpus=gpus,
        gpu_types=tuple(_TYPE.findall(gres)),
        array=bool(options.get("array")),
        python=task.python or "",
        cwd=task.cwd,
    )


def _arguments(task: TaskSpec, options: dict[str, object], gres: str) -> list[str]:
    found = [f"--{name}={value}" for name in _OPTIONS if (value := _text(options, name)) and not _SLOTS.search(value)]
    found.append(f"--nodes={task.extras.nodes}")
    if gres:
        found.append(f"--gres={gres}")
    if task.resources.cpus:
        found.append(f"--cpus-per-task={task.resources.cpus}")
    if memory := options.get("mem") or task.resources.memory_mib:
        found.append(f"--mem={memory}M")
    if limit_s := options.get("time") or (task.policy.timeout_s and task.policy.timeout_s + task.policy.grace_s):
        found.append(f"--time={math.ceil(cast('float', limit_s) / 60)}")
    if options.get("exclusive") or task.resources.exclusive or task.resources.gpus == "all":
        found.append("--exclusive")
    return found


def _gres(options: dict[str, object], gpus: int) -> str:
    given = _text(options, "gres")
    if given:
        return "" if "gpu" in given and not gpus and _SLOT.search(given) else _SLOT.sub(str(gpus), given)
    return f"gpu:{gpus}" if gpus else ""


def _text(options: dict[str, object], name: str) -> str:
    return str(options.get(name, ""))


def _lines(options: dict[str, object]) -> tuple[str, ...]:
    return cast("tuple[str, ...]", options.get("extra", ()))
