"""What `[deck] snapshot` needs is looked at before the first start."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..core.spec import DeckFile, TaskSpec
from ..errors import TaskFileError
from .git import GitError, git, top_of
from .manager import beside_words
from .repository import beside_code, repositories


def check_snapshot(file: DeckFile) -> None:
    """Every task that may run starts in a repository that can be copied. Asks git once or twice for each repository.
    Raises TaskFileError."""
    if not file.settings.snapshot:
        return
    place = file.places.get("snapshot", file.path)
    problems = [f"{place}: snapshot: {words}" for words in _problems(file.chosen, file.settings.log_dir)]
    if problems:
        raise TaskFileError(problems)


def _problems(specs: Sequence[TaskSpec], log_dir: str) -> list[str]:
    first = {spec.cwd: spec.name for spec in reversed(specs)}
    found = [
        f"task {name} starts in {cwd}, which is in no git repository: git init and commit, or snapshot = false"
        for cwd, name in reversed(first.items())
        if top_of(cwd) is None
    ]
    if found:
        return found
    for top, repository in repositories(specs, log_dir).items():
        try:
            told = git(top, "rev-parse", "--is-inside-work-tree", "--show-toplevel").decode("utf-8", "surrogateescape")
            inside, _, shown = told.rstrip("\n").partition("\n")
            if inside != "true" or os.path.realpath(shown) != top:
                found.append(f"{top} has no working tree that git knows")
            elif not git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", no=1):
                found.append(f"{top} has no commit yet: git commit, or snapshot = false")
            else:
                found += [beside_words(top, folder) for folder in beside_code(repository)]
        except GitError as error:
            found.append(str(error))
    return found
