"""The state of the code: from real repositories."""

import os
import subprocess
import threading

import pytest

from tests.inside.snapshot import GitStates, git_state, gitstate


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("print(1)\n")
    git(folder, "add", "train.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def git(folder, *words):
    config = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    return subprocess.run(
        ["git", *config, "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout


def test_outside_a_repository_there_is_no_state(tmp_path):
    assert git_state(str(tmp_path)) is None


def test_a_folder_that_does_not_exist_has_no_state(tmp_path):
    assert git_state(str(tmp_path / "none")) is None


def test_a_clean_repository_has_its_commit_and_branch(repository):
    state = git_state(str(repository))
    assert (state.commit, state.dirty, state.branch) == (git(repository, "rev-parse", "HEAD").strip(), False, "main")


def test_a_changed_file_is_dirty(repository):
    (repository / "train.py").write_text("print(2)\n")
    assert git_state(str(repository)).dirty


def test_a_staged_file_is_dirty(repository):
    (repository / "new.py").write_text("")
    git(repository, "add", "new.py")
    assert git_state(str(repository)).dirty


def test_an_untracked_file_is_not_dirty(repository):
    (repository / "out.pt").write_text("x")
    assert not git_state(str(repository)).dirty


def test_a_detached_head_has_no_branch(repository):
    git(repository, "checkout", "-q", "--detach")
    assert git_state(str(repository)).branch == ""


def test_before_the_first_commit_the_commit_is_empty(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    assert git_state(str(tmp_path)).commit == ""


def test_a_repository_cannot_make_git_run_a_program(repository, tmp_path):
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    git_state(str(repository))
    assert not (tmp_path / "ran").exists()


def test_without_git_there_is_no_state(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(str(repository)) is None


def test_a_git_that_hangs_is_given_up(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(gitstate, "_STATE_LIMIT_S", 0.2)
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(str(repository)) is None


def test_git_runs_in_the_callers_session(repository, tmp_path, monkeypatch):
    """A child in a session of its own would be taken for an orphan of a task."""
    (tmp_path / "git").write_text('#!/bin/sh\nread -r line </proc/self/stat; echo "# branch.oid ${line#*) }"\n')
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    session = git_state(str(repository)).commit.split()[3]
    assert int(session) == os.getsid(0)


def test_folders_of_one_repository_are_asked_once(repository):
    (repository / "sub").mkdir()
    states = GitStates()
    first = states.of(str(repository))
    (repository / "train.py").write_text("changed\n")
    assert states.of(str(repository / "sub")) is first


def test_a_folder_outside_is_not_asked_at_all(tmp_path):
    assert GitStates().of(str(tmp_path)) is None


def test_many_threads_get_one_answer(repository):
    states, seen = GitStates(), []
    threads = [threading.Thread(target=lambda: seen.append(states.of(str(repository)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(state) for state in seen}) == 1
