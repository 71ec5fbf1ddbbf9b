"""Which code a run was made with: commit, branch and whether files differ from it."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass

_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class GitState:
    commit: str
    """Full hash; empty before the first commit."""
    dirty: bool
    """Tracked files differ from the commit."""
    branch: str
    """Empty when detached."""


def git_state(folder: str) -> GitState | None:
    """The state of the repository around *folder*; None without one, without git, or when git takes over 2 s.

    Blocks; only asks, takes no lock of the repository and runs no hook of it.
    """
    # It stays in our session, which tells it from an orphan of a task; and fsmonitor would run a program that the
    # repository's own configuration names.
    command = ["git", "-c", "core.fsmonitor=false", "-C", folder, "status", "--porcelain=v2", "--branch"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    try:
        done = subprocess.run(
            [*command, "--untracked-files=no", "--ignore-submodules=dirty"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return _parse(done.stdout.decode("utf-8", "replace"))


class GitStates:
    """`git_state` once for each repository: of many attempts only the first one pays. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, GitState | None] = {}
        self._tops: dict[str, str | None] = {}
        """Repository by folder: the way up to its top is a dozen looks at the disk, and tasks share their folders."""

    def of(self, folder: str) -> GitState | None:
        with self._lock:
            if folder not in self._tops:
                self._tops[folder] = top_of(folder)
            top = self._tops[folder]
            if top is None:
                return None
            if top not in self._known:
                self._known[top] = git_state(top)
            return self._known[top]


def _parse(text: str) -> GitState | None:
    """Reads the output, not the exit code: a process that reaps all its children may have taken that."""
    commit: str | None = None
    branch, dirty = "", False
    for line in text.splitlines():
        if line.startswith("# branch.oid "):
            commit = line[13:].strip()
        elif line.startswith("# branch.head "):
            branch = line[14:].strip()
        elif line and not line.startswith(("#", "?", "!")):
            dirty = True
    if commit is None:
        return None
    return GitState("" if commit == "(initial)" else commit, dirty, "" if branch == "(detached)" else branch)


def top_of(folder: str) -> str | None:
    """The nearest folder upwards with a .git (a file in worktrees and submodules), without symbolic links."""
    here = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here
