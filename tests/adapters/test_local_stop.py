"""Stopping real trees: who gets which signal, when, and who never does."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import StopScope
from tests.fakes.local_rig import PYTHON, Rig, kill, launched, lives, until
from tests.inside.adapters import proc

DEAF = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(99)"
)
DEAF_WITH_A_DEAF_CHILD_ELSEWHERE = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(99)
"""
COUNTS_TERMS = """
import signal, sys, time
def heard(*_):
    print("TERM", flush=True)
signal.signal(signal.SIGTERM, heard)
print("ready", flush=True)
while True:
    time.sleep(99)
"""
TERM, KILL = signal.SIGTERM, signal.SIGKILL
LONG_S = 1000.0


def works_in(pid: int, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


@launched
async def test_a_stop_at_any_moment_of_a_start_is_heard(rig: Rig) -> None:
    tokens = []
    for number in range(100):
        token = rig.start("sleep", "99")
        asyncio.get_running_loop().call_later(
            number * 2e-5, lambda t=token: rig.launcher.stop(t, signal=TERM, scope="group", grace_s=LONG_S)
        )
        tokens.append(token)
        if number % 4 == 0:
            await rig.tree_end(token)
    assert {(await rig.leader_end(token)).code for token in tokens} == {143}


@pytest.mark.parametrize("scope", ["group", "leader"])
@launched
async def test_what_ignores_the_signal_is_killed_in_every_session(rig: Rig, scope: StopScope) -> None:
    token = rig.start(PYTHON, "-c", DEAF_WITH_A_DEAF_CHILD_ELSEWHERE)
    grandchild = await rig.pid_from(token)
    rig.launcher.stop(token, signal=TERM, scope=scope, grace_s=0.2)
    await rig.tree_end(token)
    assert not lives(grandchild)
    assert (await rig.leader_end(token)).code == 137


@launched
async def test_a_member_in_another_session_hears_the_signal_once_at_half_of_the_grace(rig: Rig) -> None:
    script = f"trap : TERM; setsid {PYTHON} -c '{COUNTS_TERMS}' & while :; do wait; done"
    token = rig.start("sh", "-c", script)
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.4)
    await rig.tree_end(token)
    assert rig.out(token).read_text() == "ready\nTERM\n"


@launched
async def test_what_the_leader_leaves_hears_the_signal_as_soon_as_it_has_ended(rig: Rig) -> None:
    token = rig.start("sh", "-c", "setsid sh -c 'echo $$; exec sleep 99' & wait")
    child = await rig.pid_from(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=LONG_S)
    await rig.tree_end(token)
    assert not lives(child)


@launched
async def test_with_the_scope_leader_the_others_hear_the_signal_when_the_command_has_ended(rig: Rig) -> None:
    script = f"trap 'exit 7' TERM; {PYTHON} -c '{COUNTS_TERMS}' & while :; do wait; done"
    token = rig.start("sh", "-c", script, leftovers="wait")
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="leader", grace_s=LONG_S)
    assert (await rig.leader_end(token)).code == 7
    await until(lambda: rig.out(token).read_text() == "ready\nTERM\n")


@pytest.mark.parametrize("scope", ["group", "leader"])
@launched
async def test_no_member_hears_the_signal_twice(rig: Rig, scope: StopScope) -> None:
    token = rig.start(PYTHON, "-c", COUNTS_TERMS)
    await rig.text(token)
    for grace_s in (LONG_S, LONG_S, 0.4, 0.2):
        rig.launcher.stop(token, signal=TERM, scope=scope, grace_s=grace_s)
    await rig.tree_end(token)
    assert rig.out(token).read_text() == "ready\nTERM\n"


@launched
async def test_a_later_stop_that_is_sooner_wins(rig: Rig) -> None:
    token = rig.start(PYTHON, "-c", DEAF)
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=LONG_S)
    rig.launcher.stop(token, signal=KILL, scope="group", grace_s=0)
    assert (await rig.leader_end(token)).code == 137


@launched
async def test_a_later_stop_that_is_not_sooner_changes_nothing(rig: Rig) -> None:
    token = rig.start(PYTHON, "-c", DEAF)
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.2)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=LONG_S)
    assert (await rig.leader_end(token)).code == 137


@launched
async def test_a_daemon_that_forked_twice_is_stopped_too(rig: Rig) -> None:
    token = rig.start("sh", "-c", "(setsid sleep 99 & echo $!); exec sleep 99")
    daemon = await rig.pid_from(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.4)
    await rig.tree_end(token)
    assert not lives(daemon)


@launched
async def test_a_daemon_without_our_token_is_stopped_too(rig: Rig) -> None:
    token = rig.start("sh", "-c", "(env -i /usr/bin/setsid /bin/sleep 99 & echo $!); exec sleep 99")
    daemon = await rig.pid_from(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.4)
    await rig.tree_end(token)
    assert not lives(daemon)


@launched
async def test_a_tree_that_multiplies_while_it_is_killed_is_gone_in_the_end(rig: Rig) -> None:
    bomb = "trap : TERM; (while :; do setsid sleep 98.7 & sleep 0.001; done) & echo up; while :; do sleep 1; done"
    token = rig.start("sh", "-c", bomb)
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.1)
    await rig.tree_end(token)
    assert not [pid for pid in proc.everyone() if lives(pid) and works_in(pid, rig.folder)]


@launched
async def test_a_leader_that_exits_early_does_not_end_the_attempt(rig: Rig) -> None:
    token = rig.start("sh", "-c", "sleep 99 & echo $!", leftovers="stop")
    child = await rig.pid_from(token)
    assert (await rig.leader_end(token)).code == 0
    assert rig.launcher.members().get(child) == token
    assert rig.tree(token) is None
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=LONG_S)
    assert (await rig.tree_end(token)).left_behind == ()
    assert not lives(child)


@launched
async def test_leftovers_that_may_stay_are_named(rig: Rig) -> None:
    token = rig.start("sh", "-c", "sleep 99 & echo $!", leftovers="leave")
    child = await rig.pid_from(token)
    assert (await rig.tree_end(token)).left_behind == (child,)
    assert lives(child)
    assert child not in rig.launcher.members()
    kill(child)
    await until(lambda: proc.stat(child) is None)  # reaped


@launched
async def test_a_stop_takes_leftovers_with_it_that_might_have_stayed(rig: Rig) -> None:
    token = rig.start("sh", "-c", "(trap '' TERM; exec sleep 99) & echo $!; sleep 99", leftovers="leave")
    child = await rig.pid_from(token)
    rig.launcher.stop(token, signal=TERM, scope="leader", grace_s=0.2)
    await rig.tree_end(token)
    assert not lives(child)


@launched
async def test_a_tree_is_waited_for_to_its_last_process(rig: Rig) -> None:
    script = "(while [ ! -e go ]; do sleep 0.02; done; setsid sh -c 'sleep 0.1; touch last') & exit 3"
    token = rig.start("sh", "-c", script, leftovers="wait")
    assert (await rig.leader_end(token)).code == 3
    (rig.folder / "go").touch()
    await rig.tree_end(token)
    assert (rig.folder / "last").exists()


@launched
async def test_a_terminal_and_what_keeps_it_are_never_signalled(rig: Rig) -> None:
    server = """
import os, pty, sys, time
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    shell, _ = pty.fork()
    if shell == 0:
        os.execlp("sh", "sh", "-c", "setsid sleep 99 & exec sleep 99")
    with open("pids", "w") as file:
        print(os.getpid(), shell, file=file)
    os.write(done, b"1")
    time.sleep(99)
os.read(ready, 1)
print("up", flush=True)
time.sleep(99)
"""
    token = rig.start(PYTHON, "-c", server)
    await rig.text(token)
    kept = [int(word) for word in (rig.folder / "pids").read_text().split()]
    await until(lambda: len(proc.descend(kept)) == 3)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.2)
    left = (await rig.tree_end(token)).left_behind
    below = [p.pid for p in proc.descend(kept).values()]
    assert all(lives(pid) for pid in below)
    assert sorted(left) == sorted(below)
    assert len(below) == 3
    for pid in below:
        kill(pid)


@launched
async def test_a_command_that_talks_to_a_child_through_a_terminal_can_be_stopped(rig: Rig) -> None:
    token = rig.start("script", "-qfc", "echo up; sleep 99", "typescript")
    await until(lambda: "up" in rig.out(token).read_text() if rig.out(token).exists() else False)
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=0.2)
    assert (await rig.tree_end(token)).left_behind == ()


@launched
async def test_a_warning_reaches_only_those_who_listen(rig: Rig) -> None:
    listener = COUNTS_TERMS.replace("SIGTERM", "SIGUSR1").replace("TERM", "heard")
    token = rig.start("sh", "-c", f"{PYTHON} -c '{listener}' & exec sleep 99")
    await rig.text(token)
    assert rig.launcher.warn(token, signal.SIGUSR1) == 1
    await until(lambda: "heard" in rig.out(token).read_text())
    assert rig.leader(token) is None


@launched
async def test_nobody_is_warned_who_would_die_of_it(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo $$; exec sleep 99")
    pid = await rig.pid_from(token)
    assert rig.launcher.warn(token, signal.SIGUSR1) == 0
    assert lives(pid)


@launched
async def test_members_names_the_whole_tree(rig: Rig) -> None:
    token = rig.start("sh", "-c", "setsid sh -c 'echo $$; sleep 99' & wait")
    other = rig.start("sleep", "99")
    grandchild = await rig.pid_from(token)
    members = dict(rig.launcher.members())
    assert members[grandchild] == token
    assert set(members.values()) == {token, other}
    assert os.getpid() not in members


@pytest.mark.parametrize("scope", ["group", "leader"])
@launched
async def test_a_command_that_is_frozen_hears_the_signal(rig: Rig, scope: StopScope) -> None:
    token = rig.start("sh", "-c", "echo $$; kill -STOP $$; exec sleep 99")
    command = await rig.pid_from(token)
    await until(lambda: (process := proc.stat(command)) is not None and process.state == "T")
    rig.launcher.stop(token, signal=TERM, scope=scope, grace_s=LONG_S)
    assert (await rig.leader_end(token)).code == 143


@launched
async def test_with_the_scope_leader_the_workers_hear_nothing_while_the_leader_saves(rig: Rig) -> None:
    saves = "sleep 0.2; read -r _ _ state _ </proc/$worker/stat; [ $state = S ] && exit 7; exit 8"
    token = rig.start("sh", "-c", f"sleep 99 & worker=$!; trap '{saves}' TERM; echo up; while :; do wait; done")
    await rig.text(token)
    rig.launcher.stop(token, signal=TERM, scope="leader", grace_s=LONG_S)
    assert (await rig.leader_end(token)).code == 7


@launched
async def test_the_wrapper_outlives_what_is_killed_and_writes_the_code(rig: Rig) -> None:
    token = rig.start("sleep", "300")
    await rig.knows_command(token)
    rig.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=0)
    await rig.tree_end(token)
    assert rig.record(token).read_text().splitlines()[-1].startswith("end 137 ")
