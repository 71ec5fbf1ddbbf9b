"""Asks git, and nobody else: no hooks, no monitor, no clean-up behind our back, none of the caller's GIT_ variables."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

LIMIT_S = 120.0
_QUIET = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
)  # fmt: skip


class GitError(Exception):
    """Git could not do it. `str(error)` is a line for people."""


def git(folder: str, *args: str, env: Mapping[str, str] | None = None, stdin: bytes = b"", no: int = 0) -> bytes:
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
            timeout=LIMIT_S,
            env={**kept, **fixed, **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {args[0]} took over {LIMIT_S:.0f} s in {folder}") from None
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
