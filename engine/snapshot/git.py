"""Git, asked: commands of it, and which code a run was made with: commit, branch and whether files differ from it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_S = 120.0
_QUIET = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
)  # fmt: skip
_STATE_LIMIT_S = 2.0


class GitError(Exception):
    """Git could not do it. `str(error)` is a line for people."""


def git(
    folder: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    no: int = 0,
    limit_s: float = LIMIT_S,
) -> bytes:
    """What `git ARGS` says in *folder*; *env* is added to the environment. *no*: the exit code that is an answer, too.
    Blocks. Raises GitError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        # In our session: what leaves it would be taken for an orphan of a task.
        done = subprocess.run(
            ["git", *_QUIET, "-C", folder, *args],
            input=stdin,
            capture_output=True,
            timeout=limit_s,
            env={**kept, **fixed, **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {args[0]} took over {limit_s:.0f} s in {folder}") from None
    except (OSError, ValueError) as error:
        raise GitError(f"git cannot be run in {folder}: {error}") from None
    if done.returncode not in (0, no):
        raise GitError(f"git {args[0]} in {folder}: {_reason(done.stderr) or f'exit code {done.returncode}'}")
    return done.stdout


def names(raw: bytes) -> list[str]:
    """Paths of an answer to `-z`."""
    return [os.fsdecode(name) for name in raw.split(b"\0") if name]


def _reason(stderr: bytes) -> str:
    """The line that tells why: git's last `fatal:` or `error:`, else its last line."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (telling or lines or [""])[-1].removeprefix("fatal: ").removeprefix("error: ")


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
    asked = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
    try:
        return _parse(git(folder, *asked, limit_s=_STATE_LIMIT_S).decode("utf-8", "replace"))
    except GitError:
        return None


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
