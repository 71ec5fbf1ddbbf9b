"""Whether tasks that run at once ask for more cores than there are, as far as the task file tells. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.spec import DeckSettings, TaskSpec
from .finding import Finding, ok, warn

_WORKERS = re.compile(r"""(?:^|[\s"'.-])(?:num[-_]workers|dataloader[-_]num[-_]workers|workers)[\s="']+(\d{1,4})\b""")


@dataclass(frozen=True, slots=True)
class Load:
    """Of the tasks that ask for the most."""

    task: str
    at_once: int
    """Tasks like it that may run together."""
    processes: int
    """That each starts."""
    workers: int
    """Data loader workers that each of these starts."""

    @property
    def total(self) -> int:
        return self.at_once * self.processes * self.workers


def check_load(tasks: Sequence[TaskSpec], settings: DeckSettings, gpus: int, cores: int) -> Finding:
    name = "cores"
    loads = [load for load in (_load(task, tasks, settings, gpus, cores) for task in tasks) if load is not None]
    if not loads:
        return ok(name, f"{cores} for tasks; no command names its data loader workers")
    top = max(loads, key=lambda load: load.total)
    processes = top.at_once * top.processes
    text = f"{cores} for {top.total} data loader workers: {processes} × {top.workers} with tasks like {top.task}"
    if top.total > cores:
        most = max(1, cores // processes)
        return warn(name, text, f"at most {most} a process, or fewer slots_per_gpu")
    return ok(name, text)


def _load(task: TaskSpec, tasks: Sequence[TaskSpec], settings: DeckSettings, gpus: int, cores: int) -> Load | None:
    workers = workers_in(task)
    if not workers:
        return None
    alike = sum(other.entry == task.entry for other in tasks)
    at_once = max(1, min(alike, task.resources.max_parallel or alike, _places(task, settings, gpus, cores)))
    return Load(task.name, at_once, task.extras.nproc or _processes(task, gpus), workers)


def workers_in(task: TaskSpec) -> int:
    """What `--num-workers 4`, `--workers=4` or `data.num_workers=4` in its command says; 0: nothing."""
    command = task.work.command
    text = command if isinstance(command, str) else shlex.join(command)
    found = [int(number) for number in _WORKERS.findall(text)]
    return found[-1] if found else 0


def _processes(task: TaskSpec, gpus: int) -> int:
    if task.extras.launch == "command":
        return 1
    return gpus if task.resources.gpus == "all" else max(1, task.resources.gpus)


def _places(task: TaskSpec, settings: DeckSettings, gpus: int, cores: int) -> int:
    wanted = task.resources.gpus
    if wanted == 0 or not gpus:
        return settings.cpu_slots or cores
    slots = settings.slots_per_gpu if isinstance(settings.slots_per_gpu, int) else 1
    return gpus * slots // (gpus if wanted == "all" else wanted)
