"""Git repositories in a folder of the test's, whose history and settings are nobody else's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SETTINGS = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@dataclass(frozen=True)
class Repo:
    top: Path

    def git(self, *words: str) -> str:
        env = {**os.environ, **_SETTINGS}
        done = subprocess.run(["git", *words], cwd=self.top, env=env, capture_output=True, check=True)
        return done.stdout.decode()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, files: Mapping[str, str]) -> str:
        """Returns the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "work")
        return self.git("rev-parse", "HEAD").strip()

    def state(self) -> tuple[str, bytes, str, str, int]:
        """What must be the same before and after: status, index, branches and stash, and how many objects there are."""
        status = self.git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=all")
        refs = self.git("for-each-ref") + self.git("stash", "list")
        objects = sum(len(files) for _, _, files in os.walk(self.top / ".git" / "objects"))
        index = (self.top / ".git" / "index").read_bytes()
        return status, index, refs, (self.top / ".git" / "config").read_text(), objects

    def worktrees(self) -> list[str]:
        """Beside the repository's own."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")][1:]


def repo_in(top: Path, files: Mapping[str, str]) -> Repo:
    top.mkdir(parents=True, exist_ok=True)
    repo = Repo(top)
    repo.git("init", "--quiet", "--initial-branch=main")
    repo.commit(files)
    return repo
