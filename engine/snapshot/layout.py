"""Which files of a repository are copied, and which paths are links to the real ones. Pure: paths are relative to the
top of the repository, with / between their parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

MOST_FILE_BYTES = 5 << 20
MOST_BYTES = 100 << 20
"""Untracked files: each, and all together."""
MANY = 1000
"""So many files that are left out are linked by folder."""

_CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints")
_CACHED = (".pyc", ".pyo")
_KEEPERS = frozenset({".gitkeep", ".keep", ".gitignore", ".placeholder"})
"""Files that are tracked to make git keep a folder that is otherwise empty."""
WRITTEN_BY_TOOLS = (
    "wandb", "mlruns", "lightning_logs", "tb_logs", "runs", "multirun", "outputs", "output", "results", "checkpoints",
    "logs",
)  # fmt: skip
"""Folders that training tools make where they are started: where git ignores one, it is a link from the start."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What git and the disk tell of a repository."""

    tracked: Collection[str]
    untracked: Sequence[tuple[str, int]]
    """With their sizes in bytes; a repository inside this one ends in /."""
    ignored: Sequence[str]
    """A folder that is ignored as a whole ends in /."""
    submodules: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How a snapshot is made."""

    links: tuple[str, ...]
    """Paths that are links to the real ones; none lies below another."""
    added: tuple[str, ...]
    """Untracked files that are copied like tracked ones."""
    left_out: tuple[str, ...] = ()
    """Untracked files that are too large to be copied."""
    unfrozen: tuple[str, ...] = ()
    """Tracked files that are not copied because tasks write to their folders."""


def layout_of(seen: Seen, real: Iterable[str], absent: Collection[str]) -> Layout:
    """*real*: folders that tasks write to. *absent*: folders of no use to a snapshot, as the deck's own state."""
    tracked_folders = {folder for path in seen.tracked for folder in above(path)}
    links = {*real, *seen.submodules, *_kept_empty(seen.tracked)}
    links |= {path.rstrip("/") for path in seen.ignored if not is_cache(path)}
    links |= {path.rstrip("/") for path, _ in seen.untracked if path.endswith("/")}
    files = [(path, size) for path, size in seen.untracked if not within(path, links) and not within(path, absent)]
    added, left_out = _fitting(files)
    links |= _gathered(left_out, tracked_folders)
    links -= {*absent, "", "."}
    outermost = tuple(sorted(path for path in links if links.isdisjoint(above(path)) and not within(path, absent)))
    unfrozen = (path for path in seen.tracked if within(path, outermost) and path.rpartition("/")[2] not in _KEEPERS)
    return Layout(
        outermost,
        tuple(path for path in added if not within(path, outermost)),
        tuple(left_out),
        tuple(unfrozen),
    )


def is_cache(path: str) -> bool:
    """What Python and its tools can make again. It tells sources apart by time and size: shared, it could be wrong."""
    return path.endswith(_CACHED) or any(part in _CACHES for part in path.split("/"))


def above(path: str) -> list[str]:
    """The folders that hold *path*, the nearest first."""
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def within(path: str, folders: Collection[str]) -> bool:
    """Whether *path* is one of *folders* or lies below one."""
    return path.rstrip("/") in folders or any(folder in folders for folder in above(path))


def _kept_empty(tracked: Collection[str]) -> set[str]:
    """Folders of which git keeps nothing but that they exist."""
    holds: dict[str, bool] = {}
    for path in tracked:
        kept = path.rpartition("/")[2] in _KEEPERS
        for folder in above(path):
            holds[folder] = holds.get(folder, True) and kept
    return {folder for folder, kept in holds.items() if kept}


def _fitting(files: Sequence[tuple[str, int]]) -> tuple[list[str], list[str]]:
    """Those that are copied, small ones first, and those that are not."""
    added: list[str] = []
    left_out: list[str] = []
    total = 0
    for path, size in sorted(files, key=lambda file: (file[1], file[0])):
        if is_cache(path):
            continue
        if size <= MOST_FILE_BYTES and total + size <= MOST_BYTES:
            added.append(path)
            total += size
        else:
            left_out.append(path)
    return added, left_out


def _gathered(left_out: Sequence[str], tracked_folders: Collection[str]) -> set[str]:
    """Links for what is left out: one for each file, or, of many, for each folder that has nothing tracked in it."""
    if len(left_out) <= MANY:
        return set(left_out)
    return {next((folder for folder in reversed(above(path)) if folder not in tracked_folders), path)
            for path in left_out}  # fmt: skip
