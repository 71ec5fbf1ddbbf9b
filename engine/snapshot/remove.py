"""Snapshots that nothing needs go, unless a task has written to one what is nowhere else."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from .git import GitError, git, names
from .repository import is_cache

MANIFEST = "files"
"""Beside the worktree: what was copied. Written last, so that a snapshot without it is not whole."""

ASIDE = "gone-"
"""How folders begin that only wait to be removed."""


def is_whole(folder: str) -> bool:
    """Whether the snapshot in *folder* was made to its end."""
    return os.path.exists(os.path.join(folder, MANIFEST))


def written_in(folder: str) -> list[str]:
    """Files that tasks made or changed in the snapshot in *folder*, links and caches left aside."""
    manifest = os.path.join(folder, MANIFEST)
    with open(manifest, "rb") as file:
        copied = frozenset(names(file.read()))
        made_ns = os.fstat(file.fileno()).st_mtime_ns
    found: list[str] = []
    for top in _worktrees(folder):
        for here, _, files in os.walk(top):
            for path in (os.path.join(here, name) for name in files):
                name = os.path.relpath(path, top)
                told = os.lstat(path)
                linked = os.path.islink(path) and name not in copied
                if name != ".git" and not linked and not is_cache(name):
                    found += [name] if name not in copied or told.st_mtime_ns > made_ns else []
    return sorted(found)


def discard(folder: str, top: str = "") -> None:
    """Remove the snapshot in *folder*, whole or not, and what its repository keeps of it. *top*: the repository's, for
    a worktree that is gone. A repository that is gone is no error; raises OSError."""
    wipe(put_aside(folder, top))


def put_aside(folder: str, top: str = "") -> str:
    """The same, but what takes long: the files lie in the folder that is returned, for `wipe`. Raises OSError."""
    owners = {path: _repository_of(path) or top for path in _worktrees(folder)}
    home, name = os.path.split(folder)
    aside = tempfile.mkdtemp(prefix=ASIDE, dir=home)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, os.path.join(aside, name))
    for path, owner in owners.items():
        if owner:
            with contextlib.suppress(GitError):  # the repository was moved or is gone, and its list with it
                git(owner, "worktree", "remove", "--force", path)
    return aside


def wipe(folder: str) -> None:
    """Remove a folder that is nobody's any more. Links in it are not followed. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _worktrees(folder: str) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        yield from [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]


def _repository_of(worktree: str) -> str:
    """The folder .git of the repository that a worktree belongs to; "" where it does not say."""
    try:
        with open(os.path.join(worktree, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            said = file.read().strip()
    except OSError:
        return ""
    common = os.path.dirname(os.path.dirname(said.removeprefix("gitdir: ")))
    return common if os.path.isdir(common) else ""
