"""What a rung of on_oom, or a [[gpu_profile]], changes of a task, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher

from ..attempts.secrets import masked_command, masked_env
from ..core.spec import TaskSpec, Work
from ..taskfile.placeholders import without_markers

_MOST_WORDS = 500
"""Of commands that are longer than this the words are not compared."""


def rung_changes(spec: TaskSpec, rung: int) -> tuple[str, ...]:
    """What differs from the command as written, as the task file says now: options with their values, `NAME=value`,
    other words after those in whose place they stand; secrets masked. Empty for rung 0 and for one that the ladder
    does not have."""
    if not 0 < rung <= len(spec.ladder):
        return ()
    return _changes(spec.work, spec.ladder[rung - 1])


def profile_changes(spec: TaskSpec, total_mib: int) -> tuple[str, ...]:
    """The same of the [[gpu_profile]] for cards of this size, after its name; empty without one."""
    card = spec.card(total_mib)
    return () if card is None else (card.profile, *_changes(spec.work, card.work))


def _changes(before: Work, after: Work) -> tuple[str, ...]:
    return (*_words(_split(before), _split(after)), *_env(before, after))


def _words(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if max(len(before), len(after)) > _MOST_WORDS:
        return []
    found: list[str] = []
    for kind, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "delete":
            found.append(f"without {' '.join(before[first:last])}")
        elif kind != "equal":
            names_it = begin > 0 and after[begin - 1].startswith("-") and not after[begin].startswith("-")
            named = names_it or kind == "insert" or after[begin].startswith("-") or "=" in after[begin]
            instead = "" if named else f"{' '.join(before[first:last])} → "
            found.append(instead + " ".join(after[begin - names_it : end]))
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
