"""A new engine finds out what became of the attempts of an earlier one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.adapters import proc, record
from gpudeck.engine.adapters.wrapper import TEXT
from gpudeck.engine.core.spec import Leftovers
from gpudeck.engine.ports import Known
from gpudeck.tests.fakes.local_rig import PYTHON, Rig, kill, launched, lives, run, until

TERM = signal.SIGTERM
LONG_S = 1000.0
OLD = f"old-{os.getpid()}"

INIT = """
import os, signal, subprocess, sys
from gpudeck.engine.adapters.proc import become_subreaper

become_subreaper()
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])
try:
    while True:
        os.wait()
except ChildProcessError:
    signal.pause()
"""
"""Adopts and reaps what a dead engine leaves, in place of the box's own init."""

ENGINE = """
import asyncio, os, sys
from pathlib import Path
from gpudeck.tests.fakes.local_rig import Rig

async def main():
    rig = Rig(Path(sys.argv[1]))
    token = rig.start(*sys.argv[4:], token=sys.argv[3], leftovers=sys.argv[2])
    print(os.getpid(), rig.pids[token], rig.ticks[token], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def init() -> Iterator[None]:
    """Ends the stand-ins for init, and with them nothing else."""
    INITS.clear()
    yield
    for process in INITS:
        process.kill()
        process.wait()


INITS: list[subprocess.Popen[str]] = []


def left_by_a_killed_engine(rig: Rig, *argv: str, leftovers: Leftovers = "stop") -> Known:
    """An attempt whose engine was killed with -9 once it had made the file `up`."""
    init = subprocess.Popen(
        (PYTHON, "-c", INIT, ENGINE, str(rig.folder), leftovers, OLD, *argv), stdout=subprocess.PIPE, text=True
    )
    INITS.append(init)
    assert init.stdout
    engine, pid, ticks = map(int, init.stdout.readline().split())
    init.stdout.close()
    while not (rig.folder / "up").exists():
        assert init.poll() is None
    kill(engine)
    while lives(engine):
        pass
    rig.pids[OLD] = pid
    return Known(OLD, pid, ticks, leftovers)


def dead_wrapper(rig: Rig, text: str) -> Known:
    """An attempt whose wrapper is gone and whose record holds *text*."""
    rig.record(OLD).write_text(text)
    return Known(OLD, 0, 0)


def start_line(pid: int, ticks: int) -> str:
    return f"start 10.00 {pid} (sh) S 1 {pid} {pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {ticks} 0 0\n"


@launched
async def test_a_running_attempt_is_adopted_and_its_code_told(rig: Rig) -> None:
    script = "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 42"
    known = left_by_a_killed_engine(rig, "sh", "-c", script)
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    assert rig.launcher.members()[known.pid] == OLD
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code == 42
    assert not (await rig.tree_end(OLD)).never_ran


@pytest.mark.parametrize("recorded", [True, False])
def test_an_attempt_is_found_by_its_record_even_where_its_start_was_not_recorded(
    tmp_path: Path, recorded: bool
) -> None:
    async def body(rig: Rig) -> None:
        known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; sleep 99")
        asked = known if recorded else Known(OLD, 0, 0)
        assert rig.launcher.recover([asked]) == {OLD: "adopted"}
        rig.launcher.stop(OLD, signal=TERM, scope="group", grace_s=LONG_S)
        assert (await rig.leader_end(OLD)).code == 143

    run(tmp_path, body)


@launched
async def test_an_attempt_that_ended_without_an_engine_tells_its_code(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; exit 7")
    await until(lambda: record.read(str(rig.record(OLD))).end)
    assert rig.launcher.recover([known]) == {OLD: "ended"}
    end = await rig.leader_end(OLD)
    assert end.code == 7
    assert end.at == pytest.approx(record.read(str(rig.record(OLD))).end_uptime_s)
    await rig.tree_end(OLD)


@launched
async def test_nothing_is_told_before_recover_has_returned(rig: Rig) -> None:
    rig.launcher.recover([dead_wrapper(rig, start_line(999_999, 1) + "end 0 11.00\n")])
    assert not rig.inputs
    await rig.tree_end(OLD)


@launched
async def test_what_an_ended_attempt_left_is_found_and_waited_for(rig: Rig) -> None:
    script = "setsid sh -c 'echo $$ >child; exec sleep 99' & while [ ! -s child ]; do :; done; touch up; exit 5"
    known = left_by_a_killed_engine(rig, "sh", "-c", script)
    child = int((rig.folder / "child").read_text())
    await until(lambda: record.read(str(rig.record(OLD))).end)
    rig.launcher.recover([known])
    assert (await rig.leader_end(OLD)).code == 5
    rig.launcher.stop(OLD, signal=TERM, scope="group", grace_s=LONG_S)
    await rig.tree_end(OLD)
    assert not lives(child)


@launched
async def test_an_adopted_tree_is_gone_only_with_its_last_process(rig: Rig) -> None:
    script = "(setsid sh -c 'touch up; while [ ! -e go ]; do sleep 0.02; done; touch last') & wait"
    known = left_by_a_killed_engine(rig, "sh", "-c", script, leftovers="wait")
    rig.launcher.recover([known])
    (command,) = proc.children(known.pid)
    kill(command)
    assert (await rig.leader_end(OLD)).code == 137
    assert rig.tree(OLD) is None
    (rig.folder / "go").touch()
    await rig.tree_end(OLD)
    assert (rig.folder / "last").exists()


@launched
async def test_an_adopted_attempt_that_ignores_the_signal_is_killed_in_every_session(rig: Rig) -> None:
    deaf = (
        "trap '' TERM; setsid sh -c 'echo $$ >child; touch up; while :; do sleep 1; done' & while :; do sleep 1; done"
    )
    known = left_by_a_killed_engine(rig, "sh", "-c", deaf)
    child = int((rig.folder / "child").read_text())
    rig.launcher.recover([known])
    rig.launcher.stop(OLD, signal=TERM, scope="group", grace_s=0.2)
    assert (await rig.leader_end(OLD)).code == 137
    await rig.tree_end(OLD)
    assert not lives(child)


@launched
async def test_an_adopted_command_without_its_wrapper_runs_on_and_its_code_is_unknown(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "echo $$ >me; touch up; while [ ! -e go ]; do sleep 0.02; done")
    kill(known.pid)
    await until(lambda: not lives(known.pid))
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    await until(lambda: rig.launcher.members().get(int((rig.folder / "me").read_text())) == OLD)
    assert rig.leader(OLD) is None
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code is None
    await rig.tree_end(OLD)


@launched
async def test_a_daemon_of_an_adopted_attempt_is_a_member(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "(setsid sleep 99 & echo $! >daemon); touch up; sleep 99")
    daemon = int((rig.folder / "daemon").read_text())
    rig.launcher.recover([known])
    await until(lambda: rig.launcher.members().get(daemon) == OLD)


@launched
async def test_an_attempt_of_which_nothing_is_left_is_lost(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; sleep 99")
    os.killpg(known.pid, signal.SIGKILL)
    await until(lambda: not any(p.live and p.session == known.pid for p in proc.everyone().values()))
    assert rig.launcher.recover([known]) == {OLD: "lost"}
    assert (await rig.leader_end(OLD)).code is None
    assert not (await rig.tree_end(OLD)).never_ran


@launched
async def test_another_process_with_the_same_pid_is_not_the_attempt(rig: Rig) -> None:
    stranger = rig.start("sleep", "99")
    pid, ticks = rig.pids[stranger], rig.ticks[stranger]
    rig.record(OLD).write_text(start_line(pid, ticks - 1))
    assert rig.launcher.recover([Known(OLD, pid, ticks - 1)]) == {OLD: "lost"}
    assert lives(pid)


@launched
async def test_a_torn_start_line_that_nobody_finishes_means_that_nothing_ran(rig: Rig) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1).rstrip("\n"))
    assert rig.launcher.recover([known]) == {OLD: "never ran"}
    assert (await rig.tree_end(OLD)).never_ran


@launched
async def test_a_torn_end_line_counts_for_nothing(rig: Rig) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1) + "end 0 11.0")
    assert rig.launcher.recover([known]) == {OLD: "lost"}


@launched
async def test_an_attempt_whose_log_could_not_be_written_never_ran(rig: Rig) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1) + "end spawn-log 11.00\n")
    assert rig.launcher.recover([known]) == {OLD: "never ran"}


@launched
async def test_a_late_wrapper_runs_nothing_even_when_the_attempt_was_forgotten(rig: Rig) -> None:
    rig.launcher.recover([Known(OLD, 0, 0)])
    await rig.tree_end(OLD)
    rig.launcher.forget(OLD)
    assert rig.record(OLD).exists()


@launched
async def test_an_unreadable_record_proves_nothing(rig: Rig) -> None:
    rig.record(OLD).parent.rmdir()
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "unknown"}
    await asyncio.sleep(0)
    assert not rig.inputs


@launched
async def test_a_record_removed_under_a_running_attempt_does_not_make_it_start_again(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 4")
    rig.record(OLD).unlink()
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code == 4


@launched
async def test_a_record_removed_of_an_attempt_that_is_gone_makes_it_lost(rig: Rig) -> None:
    assert rig.launcher.recover([Known(OLD, 999_999, 1)]) == {OLD: "lost"}


@pytest.mark.parametrize(("text", "fate"), [("", "lost"), ("end 3 11.00\n", "ended")])
def test_after_a_reboot_nothing_lives(tmp_path: Path, text: str, fate: str) -> None:
    async def body(rig: Rig) -> None:
        stranger = rig.start("sleep", "99")
        line = start_line(rig.pids[stranger], rig.ticks[stranger])
        known = replace(dead_wrapper(rig, line + text), pid=rig.pids[stranger], start_ticks=rig.ticks[stranger])
        assert rig.launcher.recover([known]) == {OLD: fate}
        await rig.tree_end(OLD)
        assert (await rig.leader_end(OLD)).code == (3 if text else None)
        assert lives(rig.pids[stranger])

    run(tmp_path, body, same_boot=False)


def test_a_missing_record_after_a_reboot_does_not_prove_that_nothing_ran(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "lost"}

    run(tmp_path, body, same_boot=False)


def test_pids_of_another_namespace_prove_nothing(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        known = dead_wrapper(rig, start_line(999_999, 1))
        assert rig.launcher.recover([known]) == {OLD: "unknown"}

    run(tmp_path, body, same_namespace=False)


@launched
async def test_recovering_twice_tells_the_same(rig: Rig) -> None:
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "never ran"}
    await rig.tree_end(OLD)
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "never ran"}


@launched
async def test_a_wrapper_that_comes_after_the_verdict_runs_nothing(rig: Rig) -> None:
    rig.launcher.recover([Known(OLD, 0, 0)])
    arguments = (str(rig.record(OLD)), str(rig.folder), "/dev/null", "/dev/null", "touch", "ran")
    assert subprocess.run(("/bin/sh", "-c", TEXT, "gpudeck", *arguments)).returncode == 125
    assert not (rig.folder / "ran").exists()


@launched
async def test_of_200_races_with_a_late_wrapper_each_has_one_winner(rig: Rig) -> None:
    verdicts = {"never ran": 0, "adopted": 0, "ended": 0}
    for number in range(200):
        token = f"race{number}"
        ran = rig.folder / f"ran{number}"
        arguments = (str(rig.record(token)), str(rig.folder), "/dev/null", "/dev/null", "touch", str(ran))
        late = subprocess.Popen(
            ("/bin/sh", "-c", TEXT, "gpudeck", *arguments),
            start_new_session=True,
            env={**os.environ, "GPUDECK_TOKEN": token},
        )
        await asyncio.sleep(number % 20 * 1e-4)
        fate = rig.launcher.recover([Known(token, 0, 0)])[token]
        late.wait()
        verdicts[fate] += 1
        assert ran.exists() == (fate != "never ran"), (fate, rig.record(token).read_text())
    assert all((verdicts["never ran"], verdicts["adopted"] + verdicts["ended"])), verdicts


@launched
async def test_the_same_process_can_take_over_from_itself(rig: Rig) -> None:
    token = rig.start("sh", "-c", "(setsid sleep 99 & echo $!); while [ ! -e go ]; do sleep 0.02; done; exit 6")
    daemon = await rig.pid_from(token)
    rig.replace_launcher()
    assert rig.launcher.recover([Known(token, rig.pids[token], rig.ticks[token])]) == {token: "adopted"}
    (rig.folder / "go").touch()
    assert (await rig.leader_end(token)).code == 6
    assert rig.tree(token) is None
    rig.launcher.stop(token, signal=TERM, scope="group", grace_s=LONG_S)
    await rig.tree_end(token)
    assert not lives(daemon)


def test_a_record_is_read_by_whole_lines() -> None:
    whole = (start_line(7, 8) + "end 137 12.50\n").encode()
    wrapper = record.parse(whole).wrapper
    assert wrapper is not None
    assert (wrapper.pid, wrapper.start_ticks) == (7, 8)
    assert (record.parse(whole).end, record.parse(whole).end_uptime_s) == ("137", 12.5)
    for cut in range(len(whole)):
        assert record.parse(whole[:cut]).end == ""


def test_a_name_with_parentheses_and_newlines_does_not_confuse_a_stat_line() -> None:
    line = b"41 (a) S 1 (b\nc) Z 7 8 9 34816 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0"
    process = proc.parse_stat(line)
    assert process is not None
    assert (process.state, process.ppid, process.session, process.start_ticks) == ("Z", 7, 9, 77)
