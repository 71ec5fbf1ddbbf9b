"""A copy of a repository: what is copied, what is linked, and what tools write."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from ..atomic import write_atomic
from ..text import plural
from .git import GitError, git, names
from .remove import MANIFEST, discard, is_whole
from .repository import Repository, is_cache

MOST_FILE_BYTES = 5 << 20
MOST_BYTES = 100 << 20
"""Untracked files: each, and all together."""
MANY = 1000
"""So many files that are left out are linked by folder."""

_KEEPERS = frozenset({".gitkeep", ".keep", ".gitignore", ".placeholder"})
"""Files that are tracked to make git keep a folder that is otherwise empty."""
WRITTEN_BY_TOOLS = (
    "wandb", "mlruns", "lightning_logs", "tb_logs", "runs", "multirun", "outputs", "output", "results", "checkpoints",
    "logs",
)  # fmt: skip
"""Folders that training tools make where they are started: where git ignores one, it is a link from the start."""


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


def layout_of(
    tracked: Collection[str],
    untracked: Sequence[tuple[str, int]],
    ignored: Sequence[str],
    linked: Iterable[str],
    absent: Collection[str],
) -> Layout:
    """*untracked*: with their sizes in bytes; a repository inside this one ends in /. *ignored*: a folder that is
    ignored as a whole ends in /. *linked*: submodules, and folders that tasks write to. *absent*: folders of no use to
    a snapshot, as the deck's own state."""
    tracked_folders = {folder for path in tracked for folder in above(path)}
    links = {*linked, *_kept_empty(tracked)}
    links |= {path.rstrip("/") for path in ignored if not is_cache(path)}
    links |= {path.rstrip("/") for path, _ in untracked if path.endswith("/")}
    files = [(path, size) for path, size in untracked if not within(path, links) and not within(path, absent)]
    added, left_out = _fitting(files)
    links |= _gathered(left_out, tracked_folders)
    links -= {*absent, "", "."}
    outermost = tuple(sorted(path for path in links if links.isdisjoint(above(path)) and not within(path, absent)))
    unfrozen = (path for path in tracked if within(path, outermost) and path.rpartition("/")[2] not in _KEEPERS)
    return Layout(
        outermost,
        tuple(path for path in added if not within(path, outermost)),
        tuple(left_out),
        tuple(unfrozen),
    )


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


DRAFT = "making-"
_NAMED = 5


class Snapshot(msgspec.Struct, frozen=True):
    """A copy of a repository that exists."""

    id: str
    top: str
    """The repository's."""
    path: str
    """Where the copy is."""
    commit: str
    dirty: bool
    """Tracked files differed from the commit."""
    branch: str
    """The one that was checked out; empty when none was."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A tree that exists in a folder of ours."""

    env: Mapping[str, str]
    tree: str
    commit: str
    dirty: bool
    layout: Layout


def make(repository: Repository, home: str, state_root: str, note: Callable[[str], None]) -> Snapshot:
    """The snapshot of a repository as it is now, below *home*; one with the same content is used again. *state_root*:
    where decks keep their state. Blocks. Raises GitError and OSError."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    with _drafting(home) as folder:
        draft = _draft(repository, folder, state_root)
        digest = blake2b(repr((repository.top, draft.tree, draft.layout.links)).encode("utf-8", "surrogateescape"))
        name = f"{draft.commit[:8]}-{digest.hexdigest()[:8]}"
        path = os.path.join(home, name, os.path.basename(repository.top) or "code")
        if not is_whole(os.path.join(home, name)):
            _fill(repository, draft, path)
            _tell(repository, draft.layout, note)
    branch = _said(repository.top, "branch", "--show-current")
    return Snapshot(name, repository.top, path, draft.commit, draft.dirty, branch)


@contextlib.contextmanager
def _drafting(home: str) -> Generator[str]:
    folder = tempfile.mkdtemp(prefix=DRAFT, dir=home)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _said(folder: str, *args: str) -> str:
    return git(folder, *args).decode("utf-8", "surrogateescape").rstrip("\n")


def _draft(repository: Repository, folder: str, state_root: str) -> _Draft:
    """Put what is to be copied into an index and objects of our own."""
    top = repository.top
    commit = _said(top, "rev-parse", "--verify", "HEAD^{commit}")
    env = _own_place(top, folder)
    git(top, "add", "--update", "--", ".", env=env)
    dirty = git(top, "write-tree", env=env) != git(top, "rev-parse", "HEAD^{tree}")
    layout = _layout(repository, env, state_root)
    git(top, "update-index", "--add", "-z", "--stdin", env=env, stdin=_joined(layout.added))
    linked = [path for path in names(git(top, "ls-files", "-z", env=env)) if within(path, layout.links)]
    git(top, "update-index", "--force-remove", "-z", "--stdin", env=env, stdin=_joined(linked))
    tree = git(top, "write-tree", env=env).decode().strip()
    return _Draft(env, tree, commit, dirty, layout)


def _own_place(top: str, folder: str) -> dict[str, str]:
    """An index that begins as the user's, which spares git reading every file, and a place for new objects."""
    index, objects = os.path.join(folder, "index"), os.path.join(folder, "objects")
    os.mkdir(objects)
    theirs = os.path.join(top, _said(top, "rev-parse", "--git-path", "objects"))
    quoted = theirs.replace("\\", "\\\\").replace('"', '\\"')
    env = {
        "GIT_INDEX_FILE": index,
        "GIT_OBJECT_DIRECTORY": objects,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
    }
    try:
        # With its time: git looks into files that are no older than their index, which a later copy would prevent.
        shutil.copy2(os.path.join(top, _said(top, "rev-parse", "--git-path", "index")), index)
    except FileNotFoundError:
        git(top, "read-tree", "HEAD", env=env)
    return env


def _layout(repository: Repository, env: Mapping[str, str], state_root: str) -> Layout:
    top = repository.top
    entries = [entry.partition("\t") for entry in names(git(top, "ls-files", "-s", "-z", env=env))]
    tracked = [path for _, _, path in entries]
    submodules = [path for mode, _, path in entries if mode.startswith("160000")]
    others = names(git(top, "ls-files", "--others", "--exclude-standard", "-z", env=env))
    ignored = names(git(top, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", env=env))
    state = os.path.relpath(os.path.realpath(state_root), top)
    real = {*repository.written, *_tools(repository, env)} - {""}
    code = [*tracked, *others]
    real |= {cwd for cwd in repository.cwds if cwd and not any(path.startswith(f"{cwd}/") for path in code)}
    untracked = [(path, _size(top, path)) for path in others]
    return layout_of(tracked, untracked, ignored, [*submodules, *real], {state})


def _tools(repository: Repository, env: Mapping[str, str]) -> list[str]:
    """Folders that training tools make where a task starts, and that git ignores."""
    # With the slash git takes what does not exist yet for a folder.
    asked = [os.path.join(cwd, name, "") for cwd in {"", *repository.cwds} for name in WRITTEN_BY_TOOLS]
    told = git(repository.top, "check-ignore", "-z", "--stdin", env=env, stdin=_joined(asked), no=1)
    return [path.rstrip("/") for path in names(told)]


def _size(top: str, path: str) -> int:
    try:
        return os.lstat(os.path.join(top, path)).st_size
    except OSError:
        return 0


def _joined(paths: Collection[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


# -- the copy ----------------------------------------------------------------------------------------------------------


def _fill(repository: Repository, draft: _Draft, path: str) -> None:
    folder = os.path.dirname(path)
    discard(folder, repository.top)
    os.makedirs(folder, mode=0o700)
    try:
        git(repository.top, "worktree", "add", "--force", "--detach", "--no-checkout", path, draft.commit)
        git(path, "checkout-index", "--all", "--force", env=draft.env)
        _link(repository, draft.layout, path)
        _index_of_commit(draft.layout, path)
        copied = git(path, "ls-files", "-z", env=draft.env)
        write_atomic(os.path.join(folder, MANIFEST), copied, mode=0o600)
    except (GitError, OSError):
        discard(folder, repository.top)
        raise


def _link(repository: Repository, layout: Layout, path: str) -> None:
    for link in layout.links:
        real, place = os.path.join(repository.top, link), os.path.join(path, link)
        if link in repository.written or not os.path.lexists(real):
            os.makedirs(real, exist_ok=True)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(real, place)
    for cwd in repository.cwds:
        os.makedirs(os.path.join(path, cwd), exist_ok=True)


def _index_of_commit(layout: Layout, path: str) -> None:
    """`git status` in the copy tells what differs from the commit; what is a link there does not count."""
    git(path, "read-tree", "HEAD")
    linked = [name for name in names(git(path, "ls-files", "-z")) if within(name, layout.links)]
    git(path, "update-index", "--skip-worktree", "-z", "--stdin", stdin=_joined(linked))
    git(path, "update-index", "-q", "--refresh", no=1)


def _tell(repository: Repository, layout: Layout, note: Callable[[str], None]) -> None:
    if layout.left_out:
        note(
            f"{repository.top}: {plural(len(layout.left_out), 'untracked file')} not copied into the snapshot "
            f"(over {MOST_FILE_BYTES >> 20} MiB, or {MOST_BYTES >> 20} MiB in all), links to the real ones: "
            f"{_some(layout.left_out)}"
        )
    if layout.unfrozen:
        note(
            f"{repository.top}: {plural(len(layout.unfrozen), 'tracked file')} in folders that tasks write to, or in "
            f"submodules, not copied into the snapshot: {_some(layout.unfrozen)}"
        )


def _some(paths: Sequence[str]) -> str:
    more = [f"and {len(paths) - _NAMED} more"] if len(paths) > _NAMED else []
    return ", ".join([*paths[:_NAMED], *more])
