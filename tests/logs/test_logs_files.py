"""Where attempts' files lie."""

import os

import pytest

from tests.inside.logs import Link, LogFolder, LogNames, make_link, safe_name


@pytest.fixture
def logs(tmp_path):
    return LogFolder(str(tmp_path / "logs"))


def claimed(logs, task, attempt, merge_stderr=False):
    """Where an attempt's files are, in a folder that is there."""
    paths = logs.paths(task, attempt, merge_stderr)
    logs.claim(task, attempt, paths, again=True, make=False)
    return paths


def start(logs, task, attempt, gpus=(), merge_stderr=False):
    """What an attempt's start leaves: its folder, its logs, its links."""
    paths = claimed(logs, task, attempt, merge_stderr)
    for path in {paths.out, paths.err}:
        with open(path, "a") as file:
            file.write(f"attempt {attempt}\n")
    for link in logs.links(paths, gpus):
        make_link(link)
    return paths


def test_an_ordinary_name_is_its_own_folder():
    assert safe_name("train-sym-0.375,lr=1e-4+x@y") == "train-sym-0.375,lr=1e-4+x@y"


def test_a_slash_makes_a_sub_folder():
    assert safe_name("round0/train-1") == "round0/train-1"


@pytest.mark.parametrize(
    "name",
    ["..", "../up", "a/../../etc", "/etc/passwd", "a//b", "a/", "", ".", "a/.", "gpu0.log", "deck.log", "Latest.log",
     "a/attempt-1.log", "attempt-3.err", "a b", "a\nb", "a\0b", "x" * 300, "é" * 150, "a/" * 150 + "b"],
)  # fmt: skip
def test_names_that_would_lead_astray_get_a_folder_of_their_own(name, tmp_path):
    safe = safe_name(name)
    assert "~" in safe
    assert len(safe.encode()) <= 200
    assert os.path.normpath(f"/logs/{safe}") == f"/logs/{safe}"
    (tmp_path / safe).mkdir()


def test_no_two_names_share_a_folder():
    names = ["a/../b", "a_.._b", "a b", "a_b", "a\tb", "x" * 300, "x" * 301, "..", "."]
    assert len({safe_name(name) for name in names}) == len(names)


def test_names_that_differ_only_in_case_get_different_folders_on_any_disk():
    logs = LogFolder("/nowhere/logs", ["Train-1", "train-1"])
    assert logs.folder("train-1").casefold() != logs.folder("Train-1").casefold()


def test_the_first_of_two_twins_keeps_its_name_whoever_starts_first():
    logs = LogFolder("/nowhere/logs", ["Train-1", "train-1"])
    assert logs.folder("train-1") != "/nowhere/logs/train-1"
    assert logs.folder("Train-1") == "/nowhere/logs/Train-1"


def test_the_first_attempt_is_number_1(logs):
    assert 1 + max(0, logs.highest("a")) == 1


def test_numbers_go_on_after_the_journals_highest(logs):
    assert 1 + max(4, logs.highest("a")) == 5


def test_numbers_go_on_after_files_that_the_journal_does_not_know(tmp_path, logs):
    start(logs, "a", 1)
    for name in ("attempt-2.log", "attempt-11.rank3.log", "attempt-x.log", "latest.log", "notes.txt"):
        (tmp_path / "logs/a" / name).touch()
    again = LogFolder(str(tmp_path / "logs"))
    assert 1 + max(1, again.highest("a")) == 12


def test_files_in_a_sub_folder_are_another_tasks(tmp_path, logs):
    start(logs, "a/b", 7)
    assert 1 + max(0, LogFolder(str(tmp_path / "logs")).highest("a")) == 1
    assert 1 + max(0, LogFolder(str(tmp_path / "logs")).highest("a/b")) == 8


def test_prepared_attempts_count_as_used(logs):
    start(logs, "a", 3)
    assert 1 + max(0, logs.highest("a")) == 4


def test_a_folder_made_by_another_deck_meanwhile_is_noticed(tmp_path, logs):
    start(LogFolder(str(tmp_path / "logs")), "a", 5)
    claimed(logs, "a", 1)
    assert 1 + max(1, logs.highest("a")) == 6


def test_a_folder_removed_meanwhile_is_made_again(tmp_path, logs):
    paths = start(logs, "a", 1)
    os.rename(paths.dir, tmp_path / "moved")
    assert os.path.isdir(claimed(logs, "a", 2).dir)


def test_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert claimed(LogFolder("logs"), "a", 1).out == str(tmp_path / "logs/a/attempt-1.log")


def test_merged_streams_share_one_file(logs):
    paths = claimed(logs, "a", 1, merge_stderr=True)
    assert paths.err == paths.out


def test_an_unusable_log_folder_is_an_os_error(tmp_path):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(OSError, match="logs"):
        claimed(LogFolder(str(tmp_path / "logs")), "a", 1)


def test_latest_points_to_the_newest_attempt(tmp_path, logs):
    start(logs, "a", 1)
    start(logs, "a", 2)
    assert (tmp_path / "logs/a/latest.log").read_text() == "attempt 2\n"
    assert os.readlink(tmp_path / "logs/a/latest.err") == "attempt-2.err"


def test_latest_err_is_not_made_for_merged_streams(tmp_path, logs):
    start(logs, "a", 1, merge_stderr=True)
    assert not os.path.lexists(tmp_path / "logs/a/latest.err")


def test_latest_err_does_not_stay_on_an_old_attempt_once_streams_are_merged(tmp_path, logs):
    start(logs, "a", 1)
    start(logs, "a", 2, merge_stderr=True)
    assert os.readlink(tmp_path / "logs/a/latest.err") == "attempt-2.log"


def test_a_gpus_link_points_to_what_runs_there(tmp_path, logs):
    start(logs, "x/a", 1, gpus=(0, 1))
    start(logs, "b", 1, gpus=(1,))
    assert os.readlink(tmp_path / "logs/gpu0.log") == "x/a/attempt-1.log"
    assert (tmp_path / "logs/gpu1.log").samefile(tmp_path / "logs/b/attempt-1.log")


def test_links_survive_a_move_of_the_log_folder(tmp_path, logs):
    start(logs, "x/a", 1, gpus=(0,))
    os.rename(tmp_path / "logs", tmp_path / "kept")
    assert (tmp_path / "kept/gpu0.log").read_text() == "attempt 1\n"
    assert (tmp_path / "kept/x/a/latest.log").read_text() == "attempt 1\n"


def test_a_temporary_link_left_by_a_crash_is_no_obstacle(tmp_path):
    os.symlink("old", tmp_path / "latest.log")
    os.symlink("half", tmp_path / "latest.log~")
    make_link(Link(str(tmp_path / "latest.log"), "new"))
    assert os.readlink(tmp_path / "latest.log") == "new"
    assert os.listdir(tmp_path) == ["latest.log"]


def test_a_link_is_not_removed_before_it_points_elsewhere(tmp_path, monkeypatch):
    link = tmp_path / "latest.log"
    make_link(Link(str(link), "old"))
    monkeypatch.setattr(os, "unlink", lambda path: pytest.fail(f"{path} is missing for a moment"))
    make_link(Link(str(link), "new"))
    assert os.readlink(link) == "new"


def test_whoever_knows_the_tasks_finds_their_logs_without_a_look_at_the_folder(tmp_path) -> None:
    names = ["a/b", "Twin", "twin"]
    (tmp_path / "logs").mkdir()
    known, folder = LogNames(str(tmp_path / "logs"), names), LogFolder(str(tmp_path / "logs"), names)
    assert [known.paths(name, 2, merge_stderr=False) for name in names] == [
        folder.paths(name, 2, merge_stderr=False) for name in names
    ]
