"""Shells that are started ahead: when there are some, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.ports import SpawnRefusedError
from tests.fakes.local_rig import PYTHON, Rig, kill, launched, lives, run, until
from tests.inside.adapters import Shell, proc, warm


class Queue:
    """What the deck has queued."""

    def __init__(self, count: int = 100) -> None:
        self.count = count

    def __call__(self) -> int:
        return self.count


def waiting(rig: Rig) -> list[Shell]:
    return rig.launcher._warm._waiting


def queued(count: int = 100, *, look_s: float = 0.05):
    """Make a test of a coroutine that takes a rig with so many tasks queued, and the queue."""

    def decorate(body):
        def test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
            monkeypatch.setattr(warm, "_LOOK_S", look_s)
            queue = Queue(count)
            run(tmp_path, lambda rig: body(rig, queue), queued=queue)

        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        return test

    return decorate


@queued()
async def test_there_is_one_for_each_running_attempt(rig: Rig, queue: Queue) -> None:
    for count in (1, 2, 3):
        rig.start("sleep", "99")
        await until(lambda count=count: len(waiting(rig)) == count)


@queued()
async def test_an_end_is_followed_by_a_start_that_takes_one_and_by_a_new_one(rig: Rig, queue: Queue) -> None:
    rig.start("sleep", "99")
    await until(lambda: waiting(rig))
    first = waiting(rig)[0].pid
    assert rig.pids[rig.start("sleep", "99")] == first
    await until(lambda: len(waiting(rig)) == 2)


@queued()
async def test_there_are_never_more_than_the_most(rig: Rig, queue: Queue) -> None:
    for _ in range(warm.MOST + 2):
        rig.start("sleep", "99")
    await until(lambda: len(waiting(rig)) == warm.MOST)
    rig.start("sleep", "99")
    await until(lambda: len(waiting(rig)) == warm.MOST)


@queued(2)
async def test_there_are_no_more_than_tasks_that_are_queued(rig: Rig, queue: Queue) -> None:
    for _ in range(4):
        rig.start("sleep", "99")
    await until(lambda: len(waiting(rig)) == 2)


@queued()
async def test_with_nothing_queued_there_are_none(rig: Rig, queue: Queue) -> None:
    rig.start("sleep", "99")
    await until(lambda: waiting(rig))
    pid = waiting(rig)[0].pid
    queue.count = 0
    await until(lambda: proc.stat(pid) is None)
    assert rig.launcher._warm._timer is None


@queued()
async def test_with_nothing_running_there_are_none(rig: Rig, queue: Queue) -> None:
    token = rig.start("sleep", "99")
    await until(lambda: waiting(rig))
    pid = waiting(rig)[0].pid
    rig.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=0)
    await rig.tree_end(token)
    await until(lambda: proc.stat(pid) is None)


@launched
async def test_without_a_queue_there_are_none(rig: Rig) -> None:
    rig.start("sleep", "99")
    assert rig.launcher._warm._timer is None


@queued()
async def test_starts_that_come_thick_and_fast_are_not_held_up(rig: Rig, queue: Queue) -> None:
    for _ in range(20):
        rig.start("true")
        await asyncio.sleep(0)
    assert not waiting(rig)


@queued()
async def test_no_attempt_is_taken_to_have_them(rig: Rig, queue: Queue) -> None:
    token = rig.start("sh", "-c", "sleep 99 & exec sleep 99")
    await until(lambda: waiting(rig))
    pid = waiting(rig)[0].pid
    rig.launcher._trees.orphans.sweep()
    assert pid not in rig.launcher.members()
    rig.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=0)
    assert (await rig.tree_end(token)).left_behind == ()
    assert lives(pid)


@queued()
async def test_those_that_died_are_replaced_a_few_times(rig: Rig, queue: Queue) -> None:
    rig.start("sleep", "99")
    for _ in range(3):
        await until(lambda: waiting(rig))
        pid = waiting(rig)[0].pid
        kill(pid)
        await until(lambda pid=pid: proc.stat(pid) is None)
    await until(lambda: rig.launcher._warm._timer is None)
    assert not waiting(rig)


@queued()
async def test_where_descriptors_are_short_there_are_none(rig: Rig, queue: Queue) -> None:
    rig.launcher._spawner._limit = len(os.listdir("/proc/self/fd")) + 40
    rig.start("sleep", "99")
    await until(lambda: rig.launcher._warm._timer is None)
    assert not waiting(rig)


@queued()
async def test_where_no_file_can_be_opened_there_are_none_and_nothing_breaks(rig: Rig, queue: Queue) -> None:
    broke: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broke.append(context))
    rig.start("sleep", "99")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard[1]))
    try:
        await until(lambda: rig.launcher._warm._timer is None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, hard)
    assert (waiting(rig), broke) == ([], [])


@queued()
async def test_a_refused_start_ends_them_and_asks_for_no_more(rig: Rig, queue: Queue) -> None:
    rig.start("sleep", "99")
    await until(lambda: waiting(rig))
    pid = waiting(rig)[0].pid
    rig.launcher._spawner._limit = 1
    with pytest.raises(SpawnRefusedError):
        rig.start("sleep", "99", env={"PS4": "only for a shell of its own"})
    await until(lambda: proc.stat(pid) is None)
    await until(lambda: rig.launcher._warm._timer is None)


@queued()
async def test_closing_ends_and_reaps_them_even_stopped_ones(rig: Rig, queue: Queue) -> None:
    for _ in range(3):
        rig.start("sleep", "99")
    await until(lambda: len(waiting(rig)) == 3)
    pids = [shell.pid for shell in waiting(rig)]
    os.kill(pids[0], signal.SIGSTOP)
    rig.replace_launcher()
    assert [proc.stat(pid) for pid in pids] == [None, None, None]


@queued()
async def test_ps_tells_what_they_are(rig: Rig, queue: Queue) -> None:
    rig.start("sleep", "99")
    await until(lambda: waiting(rig))
    cmdline = Path(f"/proc/{waiting(rig)[0].pid}/cmdline")
    await until(cmdline.read_bytes)
    line = cmdline.read_bytes().split(b"\0")
    assert line[:2] == [b"sh", b"-c"]
    assert line[2].startswith(b"# gpudeck: a shell that waits for the next task\n")


ENGINE = """
import asyncio, os, sys
from pathlib import Path
from tests.fakes.local_rig import Rig, until

async def main():
    rig = Rig(Path(sys.argv[1]), queued=lambda: 9)
    token = rig.start("sleep", "99")
    await until(lambda: rig.launcher._warm._waiting)
    print(rig.pids[token], rig.launcher._warm._waiting[0].pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_kill_9_of_the_engine_ends_them_and_they_have_made_nothing(tmp_path: Path) -> None:
    engine = subprocess.Popen((PYTHON, "-c", ENGINE, str(tmp_path)), stdout=subprocess.PIPE, text=True)
    assert engine.stdout
    wrapper, shell = map(int, engine.stdout.readline().split())
    engine.stdout.close()
    engine.kill()
    engine.wait()

    async def gone() -> None:
        await until(lambda: not lives(shell))

    asyncio.run(gone())
    os.killpg(wrapper, signal.SIGKILL)
    assert len(os.listdir(tmp_path / "attempts")) == 1
