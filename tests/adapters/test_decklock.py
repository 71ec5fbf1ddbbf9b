"""One engine a deck, told by the kernel: real processes that hold, freeze, die and fork."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from tests.inside.adapters import DeckLock, Machine, read_holder, this_machine

HOLD = """
import os, sys
from gpudeck.engine.adapters.state.lock import DeckLock
lock = DeckLock.acquire(sys.argv[1])
child = os.fork() if sys.argv[2] == "fork" else 0
if child or sys.argv[2] != "fork":
    print(child, flush=True)
sys.stdin.read()
"""
GPU7 = Machine(host="gpu7", machine_id="7" * 32, boot_id="b7", pid_ns=7)
GPU8 = Machine(host="gpu8", machine_id="8" * 32, boot_id="b8", pid_ns=8)


@contextmanager
def holder(folder: Path, way: str = "hold") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the lock of *folder*; with "fork" also the pid of its child that has not exec'd."""
    command = [sys.executable, "-c", HOLD, str(folder), way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        os.sched_yield()


def refusal(folder: Path) -> str:
    with pytest.raises(EngineUnavailableError) as refused:
        DeckLock.acquire(str(folder), wait_s=0)
    return str(refused.value)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_second_engine_is_refused_with_who_holds_the_deck_and_what_to_do(tmp_path: Path):
    with holder(tmp_path) as (process, _):
        message = refusal(tmp_path)
    assert message.startswith(f"this deck is run by gpudeck {process.pid} on {this_machine().host} since ")
    assert message.endswith(": `gpudeck attach` follows it, `gpudeck stop` ends it")
    assert "\n" not in message


def test_a_frozen_engine_holds_the_deck_and_the_message_says_so(tmp_path: Path):
    with holder(tmp_path) as (process, _):
        process.send_signal(signal.SIGSTOP)
        until(lambda: state(process.pid) == "T")
        assert f"frozen (state T): `kill -CONT {process.pid}`" in refusal(tmp_path)


def test_a_killed_engine_frees_the_deck_at_once(tmp_path: Path):
    with holder(tmp_path) as (process, _):
        process.kill()
        process.wait()
    DeckLock.acquire(str(tmp_path), wait_s=0).release()


def test_a_forked_child_that_has_not_execed_keeps_the_deck(tmp_path: Path):
    with holder(tmp_path, "fork") as (process, child), ExitStack() as stack:
        stack.callback(os.kill, child, signal.SIGKILL)
        process.kill()
        process.wait()
        assert f"gpudeck {process.pid}" in refusal(tmp_path)
        assert "a process that it left holds the lock" in refusal(tmp_path)
        stack.pop_all()
        os.kill(child, signal.SIGKILL)
        DeckLock.acquire(str(tmp_path), wait_s=20).release()


def test_a_child_that_execs_does_not_keep_the_deck(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False):
        lock.release()
        DeckLock.acquire(str(tmp_path), wait_s=0).release()


def test_the_lock_is_waited_for(tmp_path: Path):
    with holder(tmp_path) as (process, _):
        assert process.stdin is not None
        process.stdin.close()
        DeckLock.acquire(str(tmp_path), wait_s=20).release()


def test_the_lock_tells_who_holds_it_and_where_it_listens(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    lock.write(address="/tmp/gpudeck-1000/abc")
    told = read_holder(str(tmp_path))
    assert told == lock.holder
    assert told is not None
    assert (told.pid, told.machine, told.address) == (os.getpid(), this_machine(), "/tmp/gpudeck-1000/abc")
    lock.release()


def test_a_shorter_text_leaves_nothing_of_a_longer_one(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    lock.write(address="/a/very/long/address" * 20)
    lock.write(address="/short")
    lock.release()
    assert (tmp_path / "lock").read_bytes().count(b"\n") == 1
    assert (tmp_path / "lock").read_bytes().endswith(b'"/short"}\n')


def test_a_folder_without_a_lock_has_no_holder(tmp_path: Path):
    assert read_holder(str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n", b'{"pid": "x"}\n', b"\xff\xfe\n"])
def test_a_lock_file_that_says_nothing_useful_is_no_hindrance(tmp_path: Path, content: bytes):
    (tmp_path / "lock").write_bytes(content)
    assert read_holder(str(tmp_path)) is None
    DeckLock.acquire(str(tmp_path), unfinished=3).release()


def test_a_holder_that_has_not_written_yet_is_still_a_holder(tmp_path: Path):
    with holder(tmp_path):
        os.truncate(tmp_path / "lock", 0)
        assert "run by another process" in refusal(tmp_path)


def test_the_lock_is_ours_until_its_path_goes(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    before = lock.still_ours()
    os.unlink(lock.path)
    assert (before, lock.still_ours()) == (True, False)
    lock.release()


def test_the_lock_is_not_ours_when_its_path_is_another_file(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    os.unlink(lock.path)
    other = DeckLock.acquire(str(tmp_path), wait_s=0)
    assert (lock.still_ours(), other.still_ours()) == (False, True)
    lock.release()
    other.release()


def test_a_lock_file_that_is_removed_while_it_is_being_locked_is_not_the_decks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lock, removed = fcntl.flock, False

    def late(fd: int, how: int) -> None:
        nonlocal removed
        if not removed:
            removed = True
            (tmp_path / "lock").unlink()
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    held = DeckLock.acquire(str(tmp_path))
    assert removed
    assert held.still_ours()
    held.release()


def test_release_may_be_called_twice(tmp_path: Path):
    lock = DeckLock.acquire(str(tmp_path))
    lock.release()
    lock.release()


def test_another_machine_with_unfinished_attempts_is_never_judged(tmp_path: Path):
    DeckLock.acquire(str(tmp_path), machine=GPU7).release()
    before = (tmp_path / "lock").read_bytes()
    with pytest.raises(EngineUnavailableError) as refused:
        DeckLock.acquire(str(tmp_path), machine=GPU8, unfinished=4)
    assert str(refused.value).startswith(f"this deck runs on gpu7 (4 tasks, engine {os.getpid()}): ssh -t gpu7 ")
    assert str(refused.value).endswith("; or `gpudeck takeover` when gpu7 is gone")
    assert (tmp_path / "lock").read_bytes() == before


def test_a_takeover_takes_the_deck_of_another_machine(tmp_path: Path):
    DeckLock.acquire(str(tmp_path), machine=GPU7).release()
    lock = DeckLock.acquire(str(tmp_path), machine=GPU8, unfinished=4, takeover=True)
    assert lock.holder.machine == GPU8
    lock.release()


def test_another_machine_may_go_on_where_nothing_is_unfinished(tmp_path: Path):
    DeckLock.acquire(str(tmp_path), machine=GPU7).release()
    DeckLock.acquire(str(tmp_path), machine=GPU8).release()


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (replace(GPU7, boot_id="b9"), True),
        (replace(GPU7, host="a1b2c3", machine_id="", pid_ns=9), True),
        (replace(GPU7, host="gpu8", boot_id="b9"), False),
        (replace(GPU7, machine_id="9" * 32, boot_id="b9"), False),
        (GPU8, False),
    ],
    ids=["rebooted", "container restarted", "cloned image", "reinstalled", "other box"],
)
def test_a_box_is_known_by_its_boot_or_by_machine_id_and_name(later: Machine, same: bool):
    assert GPU7.same_box(later) == same


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path):
    (tmp_path / "target").touch()
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    assert "cannot be opened" in refusal(tmp_path)


def test_the_lock_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        DeckLock.acquire(str(tmp_path)).release()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_a_deck_that_was_refused_is_not_held(tmp_path: Path):
    DeckLock.acquire(str(tmp_path), machine=GPU7).release()
    with pytest.raises(EngineUnavailableError):
        DeckLock.acquire(str(tmp_path), machine=GPU8, unfinished=1)
    DeckLock.acquire(str(tmp_path), wait_s=0, machine=GPU7).release()
