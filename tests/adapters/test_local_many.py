"""Many attempts, scarce resources, kernels that hang: the launcher keeps its books."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import LeaderExited, TreeGone
from tests.fakes.local_rig import PYTHON, Rig, kill, launched, lives, until
from tests.inside.adapters import Features, proc, watch


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel tells of no end, looks for one are frequent."""
    monkeypatch.setattr(watch, "POLL_S", 0.02)


CHAIN = "import os, pathlib\nfor _ in range(300):\n if os.fork(): os._exit(0)\npathlib.Path('last').touch()"
FEATURES = [Features(), Features(pidfd=False), Features(subreaper=False), Features(children_files=False)]


def descriptors() -> set[tuple[str, str]]:
    """Open ones, and what they are of."""
    found: set[tuple[str, str]] = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of this very look
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


@launched
async def test_many_attempts_tell_their_codes_and_leave_nothing_open(rig: Rig) -> None:
    await rig.code("true")
    gc.collect()  # what another test left is not this one's
    before, children = descriptors(), set(proc.own_children())
    for batch in range(20):
        tokens = {rig.start("sh", "-c", f"exit {number}"): number for number in range(batch, batch + 8)}
        for token, code in tokens.items():
            await rig.tree_end(token)
            assert rig.leader(token).code == code
            rig.launcher.forget(token)
        rig.inputs.clear()
    assert descriptors() <= before  # fewer, where another test's are closed meanwhile
    assert os.listdir(rig.folder / "attempts") == [rig.token(0)]
    assert set(proc.own_children()) <= children


@launched
async def test_many_attempts_at_once_each_end_once(rig: Rig) -> None:
    tokens = [rig.start("true") for _ in range(100)]
    await until(lambda: len(rig.inputs) >= 200)
    for kind in (LeaderExited, TreeGone):
        assert sorted(i.token for i in rig.inputs if isinstance(i, kind)) == sorted(tokens)


@pytest.mark.parametrize("features", FEATURES)
@launched
async def test_a_tree_is_stopped_whatever_the_kernel_offers(rig: Rig, features: Features) -> None:
    rig.replace_launcher(features=features)
    token = rig.start("sh", "-c", "trap '' TERM; (setsid sleep 99 & echo $!); while :; do sleep 1; done")
    daemon = await rig.pid_from(token)
    rig.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=0.2)
    assert (await rig.leader_end(token)).code == 137
    await rig.tree_end(token)
    assert not lives(daemon)


@pytest.mark.parametrize("features", FEATURES)
@launched
async def test_leftovers_are_waited_for_whatever_the_kernel_offers(rig: Rig, features: Features) -> None:
    rig.replace_launcher(features=features)
    script = "setsid sh -c 'while [ ! -e go ]; do sleep 0.02; done; touch last' & exit 3"
    token = rig.start("sh", "-c", script, leftovers="wait")
    assert (await rig.leader_end(token)).code == 3
    (rig.folder / "go").touch()
    await rig.tree_end(token)
    assert (rig.folder / "last").exists()


@pytest.mark.parametrize("children_files", [True, False])
@launched
async def test_processes_that_each_leave_another_and_end_are_followed_to_the_last(
    rig: Rig, children_files: bool
) -> None:
    rig.replace_launcher(features=Features(children_files=children_files))
    await rig.tree_end(rig.start(PYTHON, "-c", CHAIN, leftovers="wait"))
    assert (rig.folder / "last").exists()


@launched
async def test_orphans_of_several_attempts_go_to_their_own(rig: Rig) -> None:
    script = "setsid sh -c 'echo $$; while [ ! -e go$0 ]; do sleep 0.02; done' $0 & while [ ! -s $1 ]; do :; done"
    tokens = [rig.start("sh", "-c", script, str(n), str(rig.out(rig.token(n))), leftovers="wait") for n in range(4)]
    for token in tokens:
        await rig.leader_end(token)
    for number in (2, 0, 3, 1):
        assert rig.tree(tokens[number]) is None
        (rig.folder / f"go{number}").touch()
        await rig.tree_end(tokens[number])


@launched
async def test_a_helper_of_the_engine_is_no_orphan(rig: Rig) -> None:
    helper = subprocess.Popen(("sleep", "99"))
    try:
        assert (await rig.tree_end(rig.start("true"))).left_behind == ()
        assert helper.poll() is None
    finally:
        helper.kill()
        assert helper.wait() == -signal.SIGKILL


@launched
async def test_what_a_left_behind_process_leaves_is_not_the_next_attempts(rig: Rig) -> None:
    daemon = "while [ ! -e go ]; do sleep 0.02; done; setsid sleep 99 & echo $! >grand; wait"
    token = rig.start("sh", "-c", f"setsid sh -c 'echo $$; {daemon}' &", leftovers="leave")
    child = await rig.pid_from(token)
    await rig.tree_end(token)
    other = rig.start("sh", "-c", f"sleep 0.1; touch go; while [ ! -s grand ]; do :; done; kill -9 {child}")
    await rig.tree_end(other)
    grandchild = int((rig.folder / "grand").read_text())
    assert lives(grandchild)
    kill(grandchild)


def test_a_refused_fork_is_not_an_attempt(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, resource
from pathlib import Path
from gpudeck.engine.ports import SpawnRefusedError
from tests.fakes.local_rig import Rig
async def body():
    rig = Rig(Path({str(tmp_path)!r}))
    if os.getuid() == 0:  # the limit does not hold for root
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    try:
        rig.start("true")
    except SpawnRefusedError as error:
        print(error)
    assert not rig.launcher.members()
asyncio.run(body())
"""
    told = subprocess.run((PYTHON, "-c", script), capture_output=True, text=True)
    assert told.stdout == "no more processes are allowed (ulimit -u, pids.max of its cgroup)\n", told.stderr


@launched
async def test_nothing_is_told_after_close(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo $$; exec sleep 99")
    pid = await rig.pid_from(token)
    rig.replace_launcher()
    assert lives(pid)
    os.killpg(rig.pids[token], signal.SIGKILL)
    await until(lambda: not lives(rig.pids[token]))
    await asyncio.sleep(0)
    assert not rig.inputs
    os.waitpid(rig.pids[token], 0)
