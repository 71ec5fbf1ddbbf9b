"""What is allowed in a deck but hardly meant."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.names import is_glob
from ..core.spec import TaskSpec
from .problems import Problems


def warnings(tasks: Sequence[TaskSpec], shown: str) -> tuple[str, ...]:
    """Lines about tasks that do the same work, write the same file, or crowd their GPUs."""
    found = Problems(shown)
    works: dict[tuple[object, ...], TaskSpec] = {}
    outputs: dict[str, TaskSpec] = {}
    for task in tasks:
        processes = (task.resources.gpus, task.extras.launch, task.extras.nproc, task.extras.nodes)
        first = works.setdefault((task.fingerprint, task.cwd, *processes), task)
        if first is not task:
            found.add(task.line, f"does the same as {_name(first)}: same command and environment", where=_name(task))
        if words := _crowded(task):
            found.add(task.line, words, where=_name(task))
        for path in task.outputs:
            other = outputs.setdefault(path, task)
            if other is not task and other is not first and not is_glob(path):
                found.add(task.line, f"has an output of {_name(other)}, too: {path}", where=_name(task))
    return tuple(found.lines())


def _crowded(task: TaskSpec) -> str:
    """It starts more ranks than it has GPUs."""
    nproc, gpus = task.extras.nproc, task.resources.gpus
    if task.extras.launch == "command" or nproc is None or gpus == "all" or not 0 < gpus < nproc:
        return ""
    return f"has nproc = {nproc} and gpus = {gpus}: ranks share a GPU, which NCCL refuses (backend gloo does not)"


def _name(task: TaskSpec) -> str:
    return f'task "{task.name}"'
