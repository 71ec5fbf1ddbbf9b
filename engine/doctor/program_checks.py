"""Whether what the tasks' commands name is there: the program, and the script that Python is to run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..core.spec import TaskSpec
from ..taskfile.placeholders import without_markers
from .finding import Finding, fail, ok, warn
from .patience import within
from .subject import Interpreter

_FILES_S = 5.0
_SCRIPT = re.compile(r"(?:^|[\s/])(?:python[\d.]*|\{python\})(?:\s+-[uOBEsS]+)*\s+([\w./@+-]+\.py)(?=\s|$)")
_MOVES = re.compile(r"(?:^|[\s;&(])(?:cd|pushd)\s")
"""In a shell command that changes its folder nothing is known of relative paths."""


@dataclass(frozen=True, slots=True)
class Missing:
    task: str
    text: str
    remedy: str
    later: bool
    """Another task, which runs first, may make it."""


def look_for_programs(tasks: Sequence[TaskSpec], python: Interpreter) -> list[Missing]:
    """Of each entry its first task. A file server that does not answer is no missing file."""
    first: dict[str, TaskSpec] = {}
    for task in tasks:
        first.setdefault(task.entry, task)
    try:
        return within(_FILES_S, partial(_all_missing, list(first.values()), python))
    except TimeoutError:
        return []


def check_programs(missing: Sequence[Missing]) -> Iterator[Finding]:
    for each in missing:
        kind = warn if each.later else fail
        yield kind("command", f"{each.task}: {each.text}", each.remedy)
    if not missing:
        yield ok("command", "programs and scripts that the commands name are there")


def _all_missing(tasks: Sequence[TaskSpec], python: Interpreter) -> list[Missing]:
    return [each for task in tasks for each in _missing(task, python)]


def _missing(task: TaskSpec, python: Interpreter) -> Iterator[Missing]:
    later = bool(task.needs or task.after or task.round)
    command = task.work.command
    if not os.path.isdir(task.cwd):
        yield Missing(task.name, f"cwd {task.cwd} is not there", "make the folder, or change cwd", later)
        return
    if not isinstance(command, str) and (trouble := _program_trouble(command[0], task, python)):
        yield Missing(task.name, *trouble, later)
    text = without_markers(command if isinstance(command, str) else " ".join(command))
    for script in () if _MOVES.search(text) else _SCRIPT.findall(text):
        if not os.path.exists(os.path.join(task.cwd, script)):
            remedy = "a relative path counts from cwd, which is the task file's folder unless it says cwd"
            yield Missing(task.name, f"{script} is not in {task.cwd}", remedy, later)


def _program_trouble(program: str, task: TaskSpec, python: Interpreter) -> tuple[str, str] | None:
    if "\0" in program:  # {python}: the interpreter has a check of its own
        return None
    path = os.path.join(task.cwd, program) if "/" in program else None
    if path is None:
        found = shutil.which(program, path=python.env.get("PATH"))
        return None if found else (f"{program} is not on the task's PATH", "write its path, or set python")
    if not os.path.exists(path):
        return f"{path} is not there", "mend the command"
    if not os.access(path, os.X_OK):
        return f"{path} is not executable", f"chmod +x {path}"
    return None
