"""Snapshots of real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile, DeckSettings, TaskSpec, Work
from gpudeck.engine.errors import TaskFileError
from tests.inside.snapshot import (
    MOST_FILE_BYTES,
    GitError,
    Repository,
    Snapshot,
    check_snapshot,
    discard,
    git,
    make,
    written_in,
)
from tests.snapshot.repositories import Repo, repo_in


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return repo_in(
        tmp_path / "it's a:repo", {"a.py": "1\n", "sub/b.py": "1\n", "gone.py": "1\n", ".gitignore": "data/\n"}
    )


def made(repo: Repo, *written: str, cwds: tuple[str, ...] = ("",)) -> tuple[Snapshot, list[str]]:
    said: list[str] = []
    home = repo.top.parent / "home"
    repository = Repository(os.path.realpath(repo.top), frozenset(cwds), frozenset(written))
    return make(repository, str(home), str(repo.top / ".gpudeck"), said.append), said


def files(folder: str) -> dict[str, str]:
    """Real files below a copy, by path."""
    found = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    return {
        str(path.relative_to(folder)): path.read_text() for path in found if path.name not in (".git", ".gitignore")
    }


def test_a_copy_has_what_differs_from_the_commit_staged_or_not(repo: Repo) -> None:
    repo.write({"a.py": "2\n", "staged.py": "2\n", "new/c.py": "2\n"})
    repo.git("add", "staged.py")
    (repo.top / "gone.py").unlink()
    before = repo.state()
    snapshot, _ = made(repo)
    assert files(snapshot.path) == {"a.py": "2\n", "sub/b.py": "1\n", "staged.py": "2\n", "new/c.py": "2\n"}
    assert repo.state() == before
    assert (snapshot.dirty, snapshot.branch) == (True, "main")
    told = git(snapshot.path, "status", "--porcelain").decode().splitlines()
    assert told == [" M a.py", " D gone.py", "?? new/", "?? staged.py"]
    assert git(snapshot.path, "rev-parse", "HEAD").decode().strip() == snapshot.commit


def test_an_edit_of_the_same_size_within_the_second_of_the_commit_is_seen(repo: Repo) -> None:
    repo.commit({"train.sh": "echo first\n"})
    second = 1_700_000_000
    for path in (repo.top / "train.sh", repo.top / ".git" / "index"):
        os.utime(path, (second, second))
    repo.git("update-index", "--refresh")
    os.utime(repo.top / ".git" / "index", (second, second))
    repo.write({"train.sh": "echo later\n"})
    os.utime(repo.top / "train.sh", (second, second))
    snapshot, _ = made(repo)
    assert (Path(snapshot.path) / "train.sh").read_text() == "echo later\n"


def test_a_clean_repository_makes_a_clean_copy_although_tasks_write_to_a_tracked_folder(repo: Repo) -> None:
    repo.commit({"out/old.txt": "1\n"})
    snapshot, said = made(repo, "out")
    assert os.readlink(f"{snapshot.path}/out") == os.path.realpath(repo.top / "out")
    assert not snapshot.dirty
    assert git(snapshot.path, "status", "--porcelain", "--untracked-files=no") == b""
    assert len(said) == 1
    assert "1 tracked file in folders that tasks write to" in said[0]


def test_the_same_content_is_one_copy_and_other_content_another(repo: Repo) -> None:
    first, _ = made(repo)
    assert made(repo)[0] == first
    repo.write({"a.py": "2\n"})
    assert made(repo)[0].path != first.path
    assert len(repo.worktrees()) == 2


def test_a_large_untracked_file_is_a_link_and_named(repo: Repo) -> None:
    (repo.top / "big.bin").write_bytes(bytes(MOST_FILE_BYTES + 1))
    snapshot, said = made(repo)
    assert Path(snapshot.path, "big.bin").is_symlink()
    assert [line.rpartition(": ")[2] for line in said] == ["big.bin"]


def test_folders_that_do_not_exist_yet_are_made_where_they_really_are(repo: Repo) -> None:
    repo.commit({".gitignore": "data/\nwandb/\n"})
    snapshot, _ = made(repo, "results/deep", cwds=("", "sub"))
    Path(snapshot.path, "results/deep/a.txt").write_text("1")
    Path(snapshot.path, "sub/wandb/log").write_text("1")
    assert (repo.top / "results/deep/a.txt").exists()
    assert (repo.top / "sub/wandb/log").exists()


def test_a_submodule_is_a_link_and_the_copy_is_clean(repo: Repo, tmp_path: Path) -> None:
    inner = repo_in(tmp_path / "inner", {"lib.py": "1\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.top), "lib")
    repo.commit({})
    snapshot, said = made(repo)
    assert Path(snapshot.path, "lib/lib.py").read_text() == "1\n"
    assert git(snapshot.path, "status", "--porcelain", "--untracked-files=no") == b""
    assert "submodules" in said[0]


def test_hooks_of_the_repository_do_not_run(repo: Repo) -> None:
    hook = repo.top / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{repo.top.parent}/ran'\n")
    hook.chmod(0o755)
    made(repo)
    assert not (repo.top.parent / "ran").exists()


def test_what_tasks_wrote_is_told_and_what_they_linked_or_cached_is_not(repo: Repo) -> None:
    repo.write({"data/x": "1"})
    snapshot, _ = made(repo)
    folder = os.path.dirname(snapshot.path)
    Path(snapshot.path, "data/y").write_text("1")
    Path(snapshot.path, "sub/__pycache__").mkdir()
    Path(snapshot.path, "sub/__pycache__/b.pyc").write_text("1")
    assert written_in(folder) == []
    Path(snapshot.path, "sub/model.pt").write_text("1")
    late = os.stat(folder + "/files").st_mtime_ns + 1
    os.utime(f"{snapshot.path}/a.py", ns=(late, late))
    assert written_in(folder) == ["a.py", "sub/model.pt"]


def test_a_copy_that_is_removed_leaves_no_trace_and_what_it_links_to_stays(repo: Repo) -> None:
    repo.write({"data/x": "1"})
    snapshot, _ = made(repo)
    discard(os.path.dirname(snapshot.path))
    assert repo.worktrees() == []
    assert (repo.top / "data/x").exists()
    assert os.listdir(repo.top.parent / "home") == []


def test_a_copy_that_was_half_made_is_made_again(repo: Repo) -> None:
    first, _ = made(repo)
    Path(first.path, "a.py").unlink()
    Path(first.path).with_name("files").unlink()
    assert made(repo)[0] == first
    assert files(first.path)["a.py"] == "1\n"


def deck_file(*cwds: Path, outputs: tuple[str, ...] = ()) -> DeckFile:
    tasks = tuple(
        TaskSpec(f"t{at}", f"t{at}", at, Work("true"), "f", cwd=str(cwd), outputs=outputs)
        for at, cwd in enumerate(cwds)
    )
    return DeckFile("tasks.toml", "tasks", DeckSettings(snapshot=True, log_dir=str(cwds[0] / "logs")), tasks)


def problem(file: DeckFile) -> str:
    with pytest.raises(TaskFileError) as caught:
        check_snapshot(file)
    assert len(caught.value.problems) == 1
    return str(caught.value)


def test_what_has_no_commit_or_no_repository_is_refused_with_one_line(tmp_path: Path) -> None:
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    Repo(unborn).git("init", "--quiet")
    assert f"{unborn} has no commit yet: git commit, or snapshot = false" in problem(deck_file(unborn, unborn))
    plain = tmp_path / "plain"
    plain.mkdir()
    assert f"task t0 starts in {plain}, which is in no git repository" in problem(deck_file(plain))


def test_a_repository_that_git_cannot_read_is_refused_with_what_git_says(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_text("gitdir: nowhere\n")
    assert "not a git repository" in problem(deck_file(broken))


def test_without_git_the_problem_says_so(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "git is not installed, or not on PATH" in problem(deck_file(repo.top))


def test_outputs_beside_the_code_of_a_folder_below_are_refused_and_in_one_of_their_own_they_are_not(repo: Repo) -> None:
    sub = repo.top / "sub"
    assert f"right in {sub}, beside the code" in problem(deck_file(sub, outputs=(f"{sub}/model.pt",)))
    check_snapshot(deck_file(sub, outputs=(f"{sub}/out/*.pt",)))


def test_git_that_fails_is_told_in_its_own_words(repo: Repo) -> None:
    with pytest.raises(GitError, match=r"^git rev-parse in .*: Needed a single revision$"):
        git(str(repo.top), "rev-parse", "--verify", "nowhere")
