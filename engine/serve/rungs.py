"""What a rung of on_oom changes of a task, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher

from ..core.spec import TaskSpec, Work
from ..logs.secrets import masked_command, masked_env
from ..taskfile.placeholders import without_markers

_MOST_WORDS = 500
"""Of commands that are longer than this the words are not compared."""


def rung_changes(spec: TaskSpec, rung: int) -> tuple[str, ...]:
    """What differs from the command as written, as the task file says now: options with their values, `NAME=value`;
    secrets masked. Empty for rung 0 and for one that the ladder does not have."""
    if not 0 < rung <= len(spec.ladder):
        return ()
    work = spec.ladder[rung - 1]
    return (*_words(_split(spec.work), _split(work)), *_env(spec.work, work))


def _words(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if max(len(before), len(after)) > _MOST_WORDS:
        return []
    found: list[str] = []
    for kind, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "delete":
            found.append(f"without {' '.join(before[first:last])}")
        elif kind != "equal":
            names_it = begin > 0 and after[begin - 1].startswith("-") and not after[begin].startswith("-")
            found.append(" ".join(after[begin - names_it : end]))
    return found


def _env(before: Work, after: Work) -> list[str]:
    old, new = masked_env(before.env), masked_env(after.env)
    changed = [(name, value) for name, value in new.items() if name not in old or old[name] != value]
    return [f"{name} is unset" if value is None else f"{name}={without_markers(value)}" for name, value in changed]


def _split(work: Work) -> list[str]:
    command = masked_command(work.command)
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            command = command.split()
    return [without_markers(word) for word in command]
