"""Whose a process is that has left its parents, its session and its name behind; and who only looks dead."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import Unproven
from gpudeck.engine.ports import Known
from tests.fakes.dead_engine import OLD, inits, left_by_a_killed_engine
from tests.fakes.local_rig import Rig, kill, launched, lives, until
from tests.inside.adapters import Features, adopt, proc, record, send
from tests.inside.adapters import launcher as local

TERM = signal.SIGTERM
NAMELESS = "env -i setsid sh -c 'echo $$ >daemon; exec sleep 99'"
"""In no session and no group of ours, without a token."""
BEING_BORN = """
: >"$1"; echo
while [ ! -e go ]; do sleep 0.02; done
read -r u _ </proc/uptime; echo "start $u $$" >>"$1"; exec sleep 99
"""
"""A wrapper that is held between making its record and the first line of it."""


@pytest.fixture(autouse=True)
def init() -> Iterator[None]:
    with inits():
        yield


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at every ten seconds is looked at all the time."""
    monkeypatch.setattr(local, "_SWEEP_S", 0.02)


def number_in(rig: Rig, name: str) -> int:
    """The pid that a script has written; 0: not yet."""
    try:
        return int((rig.folder / name).read_text() or 0)
    except FileNotFoundError:
        return 0


def parent_of(pid: int) -> int:
    process = proc.stat(pid)
    return process.ppid if process is not None else 0


@launched
async def test_a_nameless_daemon_belongs_to_the_attempt_whose_leader_ended_last(rig: Rig) -> None:
    other = rig.start("sleep", "99")
    script = f"{NAMELESS} & while [ ! -s daemon ]; do :; done"
    token = rig.start("sh", "-c", script, leftovers="wait")
    await rig.leader_end(token)
    daemon = number_in(rig, "daemon")
    await until(lambda: rig.launcher.members().get(daemon) == token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0)
    await rig.tree_end(token)
    assert not lives(daemon)
    assert rig.leader(other) is None


@launched
async def test_what_was_seen_in_a_tree_belongs_to_it_when_it_has_lost_its_parents(rig: Rig) -> None:
    rig.start("sleep", "99")
    parent = shlex.quote(f"echo $$ >parent; {NAMELESS} & wait")
    token = rig.start("sh", "-c", f"sh -c {parent}; sleep 99")
    await until(lambda: number_in(rig, "daemon"))
    daemon = number_in(rig, "daemon")
    assert rig.launcher.members()[daemon] == token
    kill(number_in(rig, "parent"))
    await until(lambda: parent_of(daemon) == os.getpid())
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0)
    await rig.tree_end(token)
    assert not lives(daemon)


@launched
async def test_orphans_that_die_while_their_leader_runs_are_reaped(rig: Rig, often: None) -> None:
    token = rig.start("sh", "-c", "(setsid sh -c 'echo $$ >orphan' &); sleep 99")
    await until(lambda: number_in(rig, "orphan"))
    await until(lambda: proc.stat(number_in(rig, "orphan")) is None)
    assert rig.leader(token) is None


@launched
async def test_what_an_adopted_attempt_starts_later_is_known_when_it_has_lost_its_parents(
    rig: Rig, often: None
) -> None:
    later = shlex.quote(f"while [ ! -e go ]; do sleep 0.02; done; {NAMELESS} & echo $$ >parent; wait")
    known = left_by_a_killed_engine(rig, "sh", "-c", f"touch up; sh -c {later} & wait")
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    (rig.folder / "go").touch()
    await until(lambda: number_in(rig, "daemon"))
    daemon, parent = number_in(rig, "daemon"), number_in(rig, "parent")
    attempt = rig.launcher._attempts.by_token[OLD]  # no port tells what has been noted
    await until(lambda: daemon in attempt.strays)
    kill(parent)
    await until(lambda: parent_of(daemon) != parent)
    rig.launcher.stop(OLD, signal=TERM, scope="group", grace_s=0)
    await rig.tree_end(OLD)
    assert not lives(daemon)


@launched(features=Features(pidfd=False))
async def test_the_end_of_an_adopted_attempt_is_noticed_where_the_kernel_has_no_pidfds(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 7")
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code == 7
    await rig.tree_end(OLD)


@launched
async def test_zombies_that_nobody_reaps_keep_no_adopted_attempt_alive(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.02; done", reaped=False)
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code == 0
    await rig.tree_end(OLD)
    wrapper = proc.stat(known.pid)
    assert wrapper is not None
    assert not wrapper.live


@launched
async def test_a_wrapper_that_is_about_to_write_its_first_line_is_waited_for(rig: Rig) -> None:
    record = rig.record(OLD)
    environment = {**os.environ, "GPUDECK_TOKEN": OLD}
    script = f"(sleep 0.1; touch go) & {BEING_BORN}"
    wrapper = subprocess.Popen(
        ("sh", "-c", script, "sh", str(record)),
        cwd=rig.folder, env=environment, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert wrapper.stdout
        wrapper.stdout.readline()
        assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "adopted"}
    finally:
        wrapper.stdout.close()
        wrapper.kill()
        wrapper.wait()


@launched
async def test_where_processes_cannot_be_looked_through_nothing_is_lost(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(adopt, "_PICTURE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(adopt, "picture", lambda _: hangs.wait() and None)  # as one process in the kernel's hands does
    rig.record(OLD).write_text("start 0.01 999999\n")
    try:
        assert rig.launcher.recover([Known(OLD, 999_999, 1)]) == {OLD: Unproven()}
    finally:
        hangs.set()


def test_a_signal_is_not_for_another_process_that_got_the_pid() -> None:
    with subprocess.Popen(("sleep", "99")) as stranger:
        now = proc.stat(stranger.pid)
        assert now is not None
        assert not send(stranger.pid, now.start_ticks - 1, signal.SIGKILL)
        assert lives(stranger.pid)
        assert send(stranger.pid, now.start_ticks, signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL


@launched
async def test_a_helper_that_another_part_of_the_engine_started_is_left_for_that_to_reap(rig: Rig) -> None:
    helper = subprocess.Popen(["sh", "-c", "exit 7"])
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)
    await rig.tree_end(rig.start("true"))
    assert helper.wait() == 7


@launched
async def test_a_helper_that_got_the_pid_of_an_attempt_that_has_ended_is_left_for_its_starter_to_reap(rig: Rig) -> None:
    helper = subprocess.Popen(["sh", "-c", "exit 7"])
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)
    rig.record(OLD).write_text(f"start 0.01 {helper.pid}\nend 0 0.02\n")
    assert rig.launcher.recover([Known(OLD, helper.pid, 1)]) == {OLD: "ended"}
    await rig.tree_end(OLD)
    assert helper.wait() == 7


def test_neither_a_look_nor_a_signal_nor_a_claimed_record_leaves_a_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    me = proc.stat(os.getpid())
    assert me is not None
    assert send(me.pid, me.start_ticks, 0)
    assert record.claim(str(tmp_path / "record"))
    assert len(os.listdir("/proc/self/fd")) == before
