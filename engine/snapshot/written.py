"""Where the tasks of a repository write: those folders stay the real ones. Pure."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from ..core.spec import TaskSpec

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
