"""A repository as its tasks use it: where its top is, where they start in it and where they write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from ..logs.gitstate import top_of
from .git import git
from .written import folder_of, holds_any, inside, written_by


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository and what the tasks that start in it need. Paths below it are relative to its top."""

    top: str
    """Absolute, without symbolic links."""
    cwds: frozenset[str]
    """Where tasks start; "" for the top."""
    written: frozenset[str]
    """Folders that tasks write to; "" for the top."""


def repositories(specs: Sequence[TaskSpec], log_dir: str) -> Mapping[str, Repository]:
    """By top. Looks at the disk."""
    cwds = {cwd: os.path.realpath(cwd) for cwd in {spec.cwd for spec in specs}}
    tops = {cwd: top_of(real) for cwd, real in cwds.items()}
    patterns: dict[str, set[str]] = {top: set() for top in tops.values() if top is not None}
    for spec in specs:
        top = tops[spec.cwd]
        if top is not None:
            patterns[top].update(written_by(spec))
    real = frozenset(cwds.values())
    return {
        top: Repository(
            top,
            frozenset(inside(top, (cwds[cwd] for cwd, of in tops.items() if of == top))),
            frozenset(inside(top, [os.path.realpath(log_dir), *real_folders(found, real)])),
        )
        for top, found in patterns.items()
    }


def real_folders(patterns: Iterable[str], cwds: frozenset[str]) -> set[str]:
    """Where these paths and globs are written. One right beside the code may be a folder itself."""
    found: set[str] = set()
    for pattern in patterns:
        folder = os.path.realpath(folder_of(pattern))
        own = os.path.realpath(pattern)
        found.add(own if holds_any(folder, cwds) and os.path.isdir(own) else folder)
    return found


def beside_code(repository: Repository) -> list[str]:
    """Folders of *written* that a snapshot cannot leave to the tasks: the code that they run lies there. Asks git."""
    found = [folder for folder in repository.written if not folder or holds_any(folder, repository.cwds)]
    return [folder for folder in sorted(found) if not folder or _holds_tracked(repository.top, folder)]


def _holds_tracked(top: str, folder: str) -> bool:
    return bool(git(top, "ls-files", "-z", "--", f":(literal){folder}"))
