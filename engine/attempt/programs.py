"""Whether what the tasks' commands name is there: the folder, the program, the script that Python is to run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from ..taskfile.placeholders import without_markers
from .environment import use_python

_SCRIPT = re.compile(r"(?:^|[\s/])(?:python[\d.]*|\{python\})(?:\s+-[uOBEsS]+)*\s+([\w./@+-]+\.py)(?=\s|$)")
_MOVES = re.compile(r"(?:^|[\s;&(])(?:cd|pushd)\s")
"""In a shell command that changes its folder nothing is known of relative paths."""
_FIRST_WORD = re.compile(r"\s*([\w./+-]+)(?=\s|$)")
_SHELLS_OWN = frozenset({
    "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command", "compgen", "complete", "continue",
    "coproc", "declare", "dirs", "disown", "do", "done", "echo", "elif", "else", "enable", "esac", "eval", "exec",
    "exit", "export", "false", "fc", "fg", "fi", "for", "function", "getopts", "hash", "help", "history", "if", "in",
    "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray",
    "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times",
    "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while", ".", ":"
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Missing:
    task: str
    text: str
    remedy: str
    later: bool
    """Another task, which runs first, may make it."""


def look_for_programs(tasks: Sequence[TaskSpec], base: Mapping[str, str], *, here: bool = True) -> list[Missing]:
    """What is nowhere, of each entry for its first task. *base*: what attempts' environments start from. *here*: False
    where tasks run on other machines, which have programs of their own."""
    first: dict[str, TaskSpec] = {}
    for task in tasks:
        first.setdefault(task.entry, task)
    return [each for task in first.values() for each in _missing(task, base, here=here)]


def _missing(task: TaskSpec, base: Mapping[str, str], *, here: bool) -> Iterator[Missing]:
    later = bool(task.needs or task.after or task.round)
    command = task.work.command
    if not os.path.isdir(task.cwd):
        yield Missing(task.name, f"cwd {task.cwd} is not there", "make the folder, or change cwd", later)
        return
    if here and (trouble := _program_trouble(_program(command), task, base)):
        yield Missing(task.name, *trouble, later)
    text = without_markers(command if isinstance(command, str) else " ".join(command))
    for script in () if _MOVES.search(text) else _SCRIPT.findall(text):
        if not os.path.exists(os.path.join(task.cwd, script)):
            remedy = "a relative path counts from cwd, which is the task file's folder unless it says cwd"
            yield Missing(task.name, f"{script} is not in {task.cwd}", remedy, later)


def _program(command: str | tuple[str, ...]) -> str:
    """What is executed first; "" where only the shell or the start can tell."""
    if not isinstance(command, str):
        return command[0]
    word = _FIRST_WORD.match(command)
    return "" if word is None or word[1] in _SHELLS_OWN else word[1]


def _program_trouble(program: str, task: TaskSpec, base: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong, and what to do."""
    if not program or "\0" in program:  # {python}: the interpreter has a check of its own
        return None
    if "/" not in program:
        path = _search_path(task, base)
        found = "\0" in path or shutil.which(program, path=path)
        return None if found else (f"{program} is not on the task's PATH", "write its path, or set python")
    path = os.path.join(task.cwd, program)
    if not os.path.exists(path):
        return f"{path} is not there", "mend the command"
    if not os.access(path, os.X_OK):
        return f"{path} is not executable", f"chmod +x {path}"
    return None


def _search_path(task: TaskSpec, base: Mapping[str, str]) -> str:
    """The task's PATH; placeholders may be left in it."""
    env = dict(base)
    use_python(env, task)
    return dict(task.work.env).get("PATH") or env["PATH"]
