"""The lock file of claims: one for all users of a box, and what it refuses to be."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.claims_box import GPUS, Box, says
from tests.fakes.local_rig import kill, lives
from tests.inside.adapters import WRAPPER_FD, LockFile, byte_of, inherited, is_locked, lock_folder, proc


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.close()


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same login name wherever these tests run."""
    monkeypatch.setattr("gpudeck.engine.adapters.host.login_of", "root".format)


# -- the file ----------------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("loose_umask")
def test_everybody_may_lock_whatever_the_umask_of_the_first(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    assert (mode(box.folder), mode(box.folder / "gpus")) == (0o1777, 0o666)


def test_a_mode_that_a_crash_left_is_mended_by_the_owner(box: Box) -> None:
    box.folder.mkdir()
    (box.folder / "gpus").touch(0o600)
    (box.folder / "gpus").chmod(0o600)
    box.start("a", "1", "GPU-0")
    assert mode(box.folder / "gpus") == 0o666


def test_a_file_that_was_removed_is_replaced_and_claimed_anew(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    (box.folder / "gpus").unlink()
    box.others("a")
    assert box.refused("b", "GPU-0") == {"GPU-0": says("a")}


def test_a_removed_file_is_noticed_before_the_next_start(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    (box.folder / "gpus").unlink()
    box.start("b", "2", "GPU-1")
    box.start("a", "3", "GPU-2")
    assert box.others("b") == {"GPU-0": says("a"), "GPU-2": says("a")}


def test_a_folder_that_was_removed_is_made_again(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    for path in box.folder.iterdir():
        path.unlink()
    box.folder.rmdir()
    box.start("a", "2", "GPU-1")
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_the_folder_is_locked_so_that_cleaners_leave_it_alone(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    done = subprocess.run(["flock", "-n", "-x", str(box.folder), "true"], check=False)
    assert done.returncode != 0


def make_link(path: Path) -> None:
    path.parent.mkdir()
    target = path.parent / "target"
    target.touch()
    path.symlink_to(target)


def make_dangling_link(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(path.parent / "made-by-us")


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def make_pipe(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)


def make_hard_link(path: Path) -> None:
    path.parent.mkdir()
    (path.parent / "secret").touch(0o600)
    os.link(path.parent / "secret", path)


def make_loose_folder(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)


def make_linked_folder(path: Path) -> None:
    (path.parent.parent / "elsewhere").mkdir()
    path.parent.symlink_to(path.parent.parent / "elsewhere")


def make_file_for_folder(path: Path) -> None:
    path.parent.touch()


TRAPS = [
    make_link, make_dangling_link, make_folder, make_pipe, make_hard_link, make_loose_folder, make_linked_folder,
    make_file_for_folder,
]  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_what_is_not_as_it_should_be_is_not_used_and_said_once(box: Box, trap: Callable[[Path], None]) -> None:
    trap(box.folder / "gpus")
    box.start("a", "1", "GPU-0")
    box.start("a", "2", "GPU-1")
    box.others("a")
    assert len(box.said) == 1
    assert str(box.folder) in box.said[0]


def test_a_trap_changes_no_mode_of_what_it_points_to(box: Box) -> None:
    make_hard_link(box.folder / "gpus")
    box.start("a", "1", "GPU-0")
    assert mode(box.folder / "secret") == 0o600


def test_a_kernel_without_such_locks_costs_no_descriptor_each_time(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.F_OFD_SETLK", 9999)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert box.deck("a").others(GPUS) == {}
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(box.said) == 1


def test_claims_are_made_up_for_when_the_file_can_be_used_at_last(box: Box) -> None:
    box.folder.touch()
    box.start("a", "1", "GPU-0")
    box.folder.unlink()
    box.others("a")
    assert box.others("b") == {"GPU-0": says("a")}


NOBODY = """
import encodings.unicode_escape, os, sys
from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.ports import SpawnRefusedError
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
os.umask(0o077)
claims = Claims("theirs", "/decks/theirs", sys.argv[1], lambda text: print("warned:", text, end=""))
try:
    claims.take("1", [sys.argv[2]], "task")
except SpawnRefusedError as error:
    print(*dict(error.claimed).values(), end="")
"""


def as_nobody(folder: Path, gpu: str) -> str:
    """What a deck of another user, where there can be one, is told."""
    command = [sys.executable, "-c", NOBODY, str(folder), gpu]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def shared_box() -> Iterator[Box]:
    """A box whose folder other users can reach."""
    with tempfile.TemporaryDirectory(prefix="gpudeck-claims-") as folder:
        os.chmod(folder, 0o1777)
        made = Box(Path(folder))
        yield made
        made.close()


@pytest.mark.usefixtures("loose_umask")
def test_another_user_is_kept_off_by_the_same_file(shared_box: Box) -> None:
    shared_box.start("a", "1", "GPU-0")
    assert as_nobody(shared_box.folder, "GPU-0") == says("a")


def test_the_file_of_another_user_serves_us_too(shared_box: Box) -> None:
    assert as_nobody(shared_box.folder, "GPU-0") == ""
    shared_box.start("a", "1", "GPU-0")
    assert shared_box.said == []


def test_the_file_of_another_user_in_a_folder_of_ours_serves_us_too(shared_box: Box) -> None:
    shared_box.folder.mkdir()
    shared_box.folder.chmod(0o1777)
    assert as_nobody(shared_box.folder, "GPU-0") == ""
    shared_box.start("a", "1", "GPU-0")
    assert shared_box.said == []


# -- where it lies -----------------------------------------------------------------------------------------------------


def test_the_box_has_one_folder_for_all_users(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert lock_folder({}, runtime=str(tmp_path)) == f"{tmp_path}/gpudeck"


def test_a_runtime_folder_that_is_not_everybodys_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert lock_folder({}, runtime=str(tmp_path)) == "/tmp/gpudeck-locks"


def test_the_environment_may_name_another_folder(tmp_path: Path) -> None:
    assert lock_folder({"GPUDECK_LOCK_DIR": str(tmp_path)}) == str(tmp_path)


def test_a_wrappers_description_is_one_of_its_own(tmp_path: Path) -> None:
    lock = LockFile(str(tmp_path / "locks"))
    fd = lock.again()
    assert fd > 9
    assert not is_locked(fd, 0)
    os.close(fd)
    lock.close()


def test_what_a_wrapper_is_to_get_as_number_9_is_never_that_number_before(tmp_path: Path) -> None:
    script = """
import os, sys
from gpudeck.engine.adapters.claims.file import LockFile
lock = LockFile(sys.argv[1])
while os.dup(0) < 8:
    pass
print(lock.again())
"""
    told = subprocess.run((sys.executable, "-c", script, str(tmp_path / "locks")), stdout=subprocess.PIPE, check=True)
    assert int(told.stdout) >= 10


def test_a_wrapper_that_ends_while_its_gpu_is_taken_over_hands_nothing_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "locks")
    before, after, other = (LockFile(folder) for _ in range(3))
    fd = before.take(["GPU-0"], [])
    assert fd is not None
    keeps = (os.POSIX_SPAWN_DUP2, fd, WRAPPER_FD)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "300"], {}, file_actions=[keeps])
    wrapper = proc.stat(pid)
    assert wrapper is not None
    before.close()
    os.close(fd)
    control = fcntl.fcntl

    def late(*args: Any) -> Any:
        if args[0] == after.fd and lives(pid):
            kill(pid)
            os.waitpid(pid, 0)
        return control(*args)

    monkeypatch.setattr(fcntl, "fcntl", late)
    assert not after.join("GPU-0", (pid, wrapper.start_ticks))
    assert not lives(pid)
    assert other.seize("GPU-0")
    for held in (after, other):
        held.close()


def test_what_a_process_has_open_as_that_number_is_no_claim_unless_it_is_the_file(tmp_path: Path) -> None:
    ours, others = (LockFile(str(tmp_path / name)) for name in ("ours", "others"))
    others.seize("GPU-0")
    byte = byte_of("GPU-0")
    assert inherited(os.getpid(), others.fd, others.file, byte)
    assert not inherited(os.getpid(), others.fd, ours.file, byte)
    for held in (ours, others):
        held.close()


@pytest.mark.usefixtures("loose_umask")
def test_everybody_may_read_who_has_a_gpu_whatever_the_umask(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    (note,) = box.folder.glob("deck-*")
    assert mode(note) == 0o644


def linked_elsewhere(note: Path) -> None:
    os.link(note, note.with_name("precious"))


def somebody_elses(note: Path) -> None:
    os.chown(note, 12345, 12345)


NOT_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.mark.parametrize("spoil", [linked_elsewhere, pytest.param(somebody_elses, marks=NOT_ROOT)])
def test_a_note_is_written_into_no_file_that_may_be_somebody_elses(box: Box, spoil: Callable[[Path], None]) -> None:
    box.start("a", "1", "GPU-0")
    (note,) = box.folder.glob("deck-*")
    note.unlink()
    note.write_text("precious")
    spoil(note)
    box.start("a", "2", "GPU-1")
    assert note.read_text() == "precious"
