"""What is allowed in a deck but hardly meant."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.names import is_glob
from ..core.spec import TaskSpec
from .problems import Problems


def warnings(tasks: Sequence[TaskSpec], shown: str) -> tuple[str, ...]:
    """Lines about tasks that do the same work, or write the same file."""
    found = Problems(shown)
    works: dict[tuple[str, str], TaskSpec] = {}
    outputs: dict[str, TaskSpec] = {}
    for task in tasks:
        first = works.setdefault((task.fingerprint, task.cwd), task)
        if first is not task:
            found.add(task.line, f"does the same as {_name(first)}: same command and environment", where=_name(task))
        for path in task.outputs:
            other = outputs.setdefault(path, task)
            if other is not task and other is not first and not is_glob(path):
                found.add(task.line, f"has an output of {_name(other)}, too: {path}", where=_name(task))
    return tuple(found.lines())


def _name(task: TaskSpec) -> str:
    return f'task "{task.name}"'
