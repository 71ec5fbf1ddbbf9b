"""Repositories that tasks run in: git, where they are, and what the deck itself writes in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from .git_state import top_of

_CACHED = (".pyc", ".pyo")
_CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints")
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
