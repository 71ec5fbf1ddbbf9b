"""Repositories that tasks run in: git, where they are, and what the deck itself writes in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from .git import git, top_of

_CACHED = (".pyc", ".pyo")
_CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints")


_MAGIC = frozenset("*?[")


def written_by(spec: TaskSpec) -> Iterator[str]:
    """Absolute paths and globs: what a task must leave behind, what it resumes from and where its metrics are."""
    yield from spec.outputs
    for resume in (spec.resume, *(card.resume for card in spec.cards)):
        yield from resume.when if resume is not None else ()
    yield from (metric.file for metric in spec.extras.metrics if metric.file)


def folder_of(pattern: str) -> str:
    """The folder that a path or glob is in, without wildcards; of "out/" it is that itself."""
    parts = os.path.normpath(pattern).split("/")
    wild = next((place for place, part in enumerate(parts) if not _MAGIC.isdisjoint(part)), None)
    if wild is None and pattern.endswith("/"):
        wild = len(parts)
    return "/".join(parts[: len(parts) - 1 if wild is None else wild]) or "/"


def holds_any(folder: str, paths: Collection[str]) -> bool:
    """Whether one of *paths* is *folder* or lies below it."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for path in paths)


def inside(top: str, folders: Iterable[str]) -> set[str]:
    """*folders* below *top*, relative to it; "" for *top* itself."""
    found = (os.path.relpath(folder, top) for folder in folders)
    return {"" if path == "." else path for path in found if path != ".." and not path.startswith("../")}


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


def is_cache(path: str) -> bool:
    """What Python and its tools can make again. It tells sources apart by time and size: shared, it could be wrong."""
    return path.endswith(_CACHED) or any(part in _CACHES for part in path.split("/"))
