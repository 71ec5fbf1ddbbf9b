"""Where a deck's state lies, whose it is, and what is kept in it."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError, UsageError
from tests.inside.adapters import (
    Machine,
    StateDir,
    file_system,
    load_environment,
    open_state_dir,
    record,
    save_environment,
)

ME = os.geteuid()
GPU7 = Machine(host="gpu7", machine_id="7" * 32, boot_id="b7", pid_ns=7)
GPU8 = Machine(host="gpu8", machine_id="8" * 32, boot_id="b8", pid_ns=8)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def opened(project: Path, state_dir: str = ".gpudeck", stem: str = "tasks", **how: object) -> StateDir:
    return open_state_dir(str(project / "tasks.toml"), state_dir, stem, **how)  # type: ignore[arg-type]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_state_lies_beside_the_task_file_one_folder_a_deck(project: Path):
    state = opened(project, stem="a@smoke")
    assert state.path == str(project / ".gpudeck" / "a@smoke")
    assert (state.db, state.lock) == (f"{state.path}/deck.db", f"{state.path}/lock")
    assert (os.path.isdir(state.attempts), state.warning) == (True, "")


def test_the_state_is_for_its_owner_only(project: Path):
    state = opened(project)
    assert [mode(project / ".gpudeck"), mode(Path(state.path)), mode(Path(state.attempts))] == [0o700] * 3


def test_a_state_folder_that_others_could_read_is_closed(project: Path):
    state = opened(project)
    os.chmod(state.path, 0o755)
    assert mode(Path(opened(project).path)) == 0o700


def test_git_ignores_the_state(project: Path):
    opened(project)
    assert (project / ".gpudeck" / ".gitignore").read_text() == "*\n"


def test_an_existing_folder_that_the_user_named_gets_no_gitignore(project: Path):
    (project / "work").mkdir(mode=0o755)
    opened(project, "work")
    assert (os.listdir(project / "work"), mode(project / "work")) == (["tasks"], 0o755)


def test_opening_again_keeps_what_is_there(project: Path):
    first = opened(project)
    Path(first.db).write_text("x")
    assert Path(opened(project).db).read_text() == "x"


def test_an_absolute_state_dir_and_a_home_are_followed(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert opened(project, "~/states").path == str(tmp_path / "states" / "tasks")
    assert opened(project, str(tmp_path / "abs")).path == str(tmp_path / "abs" / "tasks")


@pytest.mark.parametrize("stem", ["", ".", "..", "a/b"])
def test_a_stem_that_leads_elsewhere_is_refused(project: Path, stem: str):
    with pytest.raises(UsageError, match="cannot name a deck"):
        opened(project, stem=stem)


def test_records_that_are_left_tell_of_unfinished_attempts(project: Path):
    state = opened(project)
    (Path(state.attempts) / "token").touch()
    assert state.unfinished() == 1


def test_a_start_that_came_to_nothing_does_not_keep_a_deck_on_its_host(project: Path):
    state = opened(project)
    assert record.claim(f"{state.attempts}/token")
    assert state.unfinished() == 0


@pytest.mark.parametrize("end", ["spawn-fork", "spawn-log"])
def test_a_start_that_the_box_refused_does_not_either(project: Path, end: str):
    state = opened(project)
    (Path(state.attempts) / "token").write_text(f"start 1.00 77\nend {end} 1.01\n")
    assert state.unfinished() == 0


@pytest.mark.parametrize("place", [".gpudeck", ".gpudeck/tasks", ".gpudeck/tasks/attempts"])
def test_a_symbolic_link_is_refused(project: Path, tmp_path: Path, place: str):
    target = tmp_path / "elsewhere"
    target.mkdir()
    (project / place).parent.mkdir(parents=True, exist_ok=True)
    (project / place).symlink_to(target)
    with pytest.raises(UsageError, match="is a symbolic link"):
        opened(project)


def test_a_file_in_place_of_the_folder_is_refused(project: Path):
    (project / ".gpudeck").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        opened(project)


def test_somebody_elses_state_is_refused(project: Path):
    opened(project)
    with pytest.raises(UsageError, match=r"\.gpudeck.* belongs to .*: set state_dir to a folder of yours"):
        opened(project, euid=ME + 12345)


def test_root_in_a_users_folder_is_refused(project: Path):
    if ME == 0:
        os.chown(project, 12345, 12345)
    with pytest.raises(UsageError, match=r"belongs to .*: run gpudeck as .*, or give --as-root"):
        opened(project, euid=0)


def test_the_refusal_of_root_leaves_nothing_behind(project: Path):
    if ME == 0:
        os.chown(project, 12345, 12345)
    with pytest.raises(UsageError):
        opened(project, euid=0)
    assert os.listdir(project) == []


def test_root_told_so_uses_the_state_of_the_folders_owner(project: Path):
    state = opened(project)
    if ME == 0:
        for folder in (project, project / ".gpudeck", Path(state.path), Path(state.attempts)):
            os.chown(folder, 12345, 12345)
    assert opened(project, euid=0, as_root=True).path == state.path


def test_a_folder_that_cannot_be_written_gives_one_clear_line(project: Path):
    with pytest.raises(EngineUnavailableError) as refused:
        opened(project, "/sys/gpudeck")
    assert re.fullmatch(
        r"the deck's state cannot be written to /sys/gpudeck \(.*\): set state_dir to a folder of yours",
        str(refused.value),
    )


def test_a_project_that_does_not_exist_gives_one_clear_line(tmp_path: Path):
    with pytest.raises(EngineUnavailableError, match="No such file or directory"):
        opened(tmp_path / "gone")


# Network file systems


@pytest.fixture
def nfs(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The project is on NFS, the state home on a local disk."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state home"))
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"98 22 0:50 / {tmp_path}/state\\040home rw shared:5 - xfs /dev/sdb rw\n"
        f"99 22 0:51 /export {project} rw,relatime shared:2 master:1 - nfs4 server:/export rw,vers=4.2\n"
    )
    return {"mounts": str(mounts)}


def test_the_longest_mount_point_tells_the_file_system(project: Path, nfs: Mapping[str, str], tmp_path: Path):
    found = [file_system(str(path), nfs["mounts"]) for path in (project / "a/b", tmp_path / "state home/x", tmp_path)]
    assert found == ["nfs4", "xfs", "ext4"]


def test_a_name_that_only_begins_like_a_mount_point_is_not_in_it(project: Path, nfs: Mapping[str, str]):
    assert file_system(f"{project}2", nfs["mounts"]) == "ext4"


def test_the_real_mount_table_is_understood(tmp_path: Path):
    assert file_system("/proc/self") == "proc"
    assert file_system(str(tmp_path)) != ""


def test_on_nfs_the_state_lies_on_a_local_disk_and_the_user_is_told(
    project: Path, nfs: Mapping[str, str], tmp_path: Path
):
    state = opened(project, machine=GPU7, **nfs)
    assert Path(state.path).parent == tmp_path / "state home" / "gpudeck"
    assert state.warning == f"{project}/.gpudeck is on nfs4: the deck's state lies in {state.path}"
    assert os.path.isdir(state.attempts)


def test_on_nfs_a_pointer_beside_the_task_file_leads_to_the_state(project: Path, nfs: Mapping[str, str]):
    first = opened(project, machine=GPU7, **nfs)
    assert opened(project, machine=GPU7, **nfs).path == first.path
    assert os.path.isfile(project / ".gpudeck" / "tasks.json")


def test_the_pointer_is_followed_when_the_state_home_has_changed(
    project: Path, nfs: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = opened(project, machine=GPU7, **nfs)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert opened(project, machine=GPU7, **nfs).path == first.path


def test_two_decks_on_nfs_do_not_share_their_state(project: Path, nfs: Mapping[str, str]):
    assert opened(project, stem="a", machine=GPU7, **nfs).path != opened(project, stem="b", machine=GPU7, **nfs).path


def test_another_machine_never_begins_a_second_state(project: Path, nfs: Mapping[str, str]):
    first = opened(project, machine=GPU7, **nfs)
    with pytest.raises(EngineUnavailableError) as refused:
        opened(project, machine=GPU8, **nfs)
    assert str(refused.value).startswith(f"this deck's state lies on gpu7 in {first.path}: ssh -t gpu7 ")


def test_containers_of_the_same_name_without_a_machine_id_are_not_taken_for_one(
    project: Path, nfs: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, later = (Machine(host="trainer-0", machine_id="", boot_id=boot, pid_ns=7) for boot in ("b7", "b8"))
    state = opened(project, machine=first, **nfs)
    assert opened(project, machine=later, **nfs).path == state.path, "rebooted: the state is here"
    opened(project, machine=first, **nfs)
    os.rename(tmp_path / "state home", tmp_path / "not here")
    with pytest.raises(EngineUnavailableError, match="this deck's state lies on trainer-0 in"):
        opened(project, machine=later, **nfs)


def test_of_two_machines_that_begin_at_once_one_has_the_deck(project: Path, nfs: Mapping[str, str], tmp_path: Path):
    def begin(machine: Machine, stem: str) -> bool:
        barrier.wait()
        try:
            opened(project, stem=stem, machine=machine, **nfs)
        except EngineUnavailableError:
            return False
        return True

    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for stem in map(str, range(40)):
            first, second = (pool.submit(begin, machine, stem) for machine in (GPU7, GPU8))
            assert (first.result(), second.result()) in ((True, False), (False, True))
    assert sorted(os.listdir(project / ".gpudeck")) == sorted(
        [".gitignore", *(f"{number}.json" for number in range(40))]
    )


def test_a_takeover_begins_the_state_on_this_machine(project: Path, nfs: Mapping[str, str]):
    opened(project, machine=GPU7, **nfs)
    opened(project, machine=GPU8, takeover=True, **nfs)
    assert opened(project, machine=GPU8, **nfs).warning


def test_without_a_local_disk_the_state_stays_and_the_warning_says_what_that_risks(project: Path, tmp_path: Path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text("22 1 0:20 / / rw - nfs4 server:/root rw\n")
    state = opened(project, mounts=str(mounts))
    assert state.path == str(project / ".gpudeck" / "tasks")
    assert "no local disk was found" in state.warning


# The kept environment


def test_the_environment_comes_back_as_it_was(tmp_path: Path):
    given = {"PATH": "/a:/b", "EMPTY": "", "LINES": "a\nb", "EQUALS": "a=b", "BYTES": "caf\udce9", "SNOW": "☃"}
    save_environment(str(tmp_path), given)
    assert load_environment(str(tmp_path)) == given


def test_the_environment_is_for_its_owner_only_even_over_an_open_file(tmp_path: Path):
    (tmp_path / "environment").write_text("A=1")
    os.chmod(tmp_path / "environment", 0o644)
    save_environment(str(tmp_path), {"A": "2"})
    assert mode(tmp_path / "environment") == 0o600


def test_saving_again_replaces_everything_and_leaves_no_other_file(tmp_path: Path):
    save_environment(str(tmp_path), {"A": "1", "B": "2"})
    save_environment(str(tmp_path), {"C": "3"})
    assert (load_environment(str(tmp_path)), os.listdir(tmp_path)) == ({"C": "3"}, ["environment"])


def test_no_environment_was_kept_is_none_and_an_empty_one_is_empty(tmp_path: Path):
    before = load_environment(str(tmp_path))
    save_environment(str(tmp_path), {})
    assert (before, load_environment(str(tmp_path))) == (None, {})


def test_what_a_crash_left_half_written_and_open_to_others_ends_up_private(tmp_path: Path):
    draft = tmp_path / f"environment.{os.getpid()}~"
    draft.write_bytes(b"half")
    draft.chmod(0o666)
    save_environment(str(tmp_path), {"A": "1"})
    assert stat.S_IMODE((tmp_path / "environment").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_nothing_half_written(tmp_path: Path):
    (tmp_path / "environment").mkdir()
    with pytest.raises(OSError, match="environment"):
        save_environment(str(tmp_path), {"A": "1"})
    assert os.listdir(tmp_path) == ["environment"]
