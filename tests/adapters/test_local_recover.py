"""A new engine finds out what became of the attempts of an earlier one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from gpudeck.engine.core.events import Fate, Unproven
from gpudeck.engine.core.inputs import GpuReading, Process
from gpudeck.engine.ports import Known, StartOrder
from tests.fakes.dead_engine import OLD, inits, left_by_a_killed_engine
from tests.fakes.local_rig import Rig, kill, launched, lives, until
from tests.inside.adapters import adopt, arguments_of, boottime_s, proc, record, wrapper_text

TERM = signal.SIGTERM
LONG_S = 1000.0
LOOKS = 20
"""At a record: they take a small part of the time in which a wrapper makes it."""

HELD_IN_ITS_FIRST_LINE = """
exec 3>"$1"; echo
while [ ! -e go ]; do sleep 0.02; done
read -r u _ </proc/uptime; echo "start $u $$" >&3; exec sleep 99 3>&-
"""
"""A wrapper that is held between making its record and the first line of it."""

GATED = 'read -r _; exec "$@" </dev/null'


@pytest.fixture(autouse=True)
def init() -> Iterator[None]:
    with inits():
        yield


class LateWrapper:
    """A wrapper that a dead engine asked for: started, and held until told to go."""

    def __init__(self, rig: Rig, token: str, command: tuple[str, ...]) -> None:
        order = StartOrder(
            token, command, {**os.environ, "GPUDECK_TOKEN": token}, str(rig.folder), os.devnull, os.devnull
        )
        arguments, env = arguments_of(order, str(rig.record(token)))
        argv = ("sh", "-c", wrapper_text(), "gpudeck", *arguments)
        self._process = subprocess.Popen(
            ("sh", "-c", GATED, "gate", *argv), stdin=subprocess.PIPE, start_new_session=True, env=env
        )
        self.code: int | None = None

    def __enter__(self) -> LateWrapper:
        return self

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()

    def __exit__(self, *_: object) -> None:
        self.go()
        self.code = self._process.wait()


def dead_wrapper(rig: Rig, text: str) -> Known:
    """An attempt whose wrapper is gone and whose record holds *text*."""
    rig.record(OLD).write_text(text)
    return Known(OLD, 0, 0)


def start_line(pid: int, ticks: int) -> str:
    """The record of a wrapper that held *pid* when the box had been up for *ticks*."""
    return f"start {ticks / proc.TICKS_PER_S:.2f} {pid}\n"


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
@launched
async def test_an_attempt_is_found_by_its_record_even_where_its_start_was_not_recorded(
    rig: Rig, recorded: bool
) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; sleep 99")
    asked = known if recorded else Known(OLD, 0, 0)
    assert rig.launcher.recover([asked]) == {OLD: "adopted"}
    rig.launcher.stop(OLD, signal=TERM, scope="group", grace_s=LONG_S)
    assert (await rig.leader_end(OLD)).code == 143


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
    await until(lambda: rig.launcher._attempts.by_token[OLD].survivor)  # no port tells that its end is waited for
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
    await until(lambda: daemon in list(rig.launcher.members()))


@launched
async def test_an_orphan_of_an_adopted_attempt_that_has_erased_its_environment_is_a_member(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "(env -i sleep 99 & echo $! >orphan); touch up; sleep 99")
    orphan = int((rig.folder / "orphan").read_text())
    rig.launcher.recover([known])
    await until(lambda: orphan in list(rig.launcher.members()))


@launched
async def test_an_attempt_of_which_nothing_is_left_is_lost(rig: Rig) -> None:
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; sleep 99")
    os.killpg(known.pid, signal.SIGKILL)
    await until(lambda: not any(p.live and p.session == known.pid for p in proc.everyone().values()))
    assert rig.launcher.recover([known]) == {OLD: "lost"}
    assert (await rig.leader_end(OLD)).code is None
    assert not (await rig.tree_end(OLD)).never_ran


@dataclass
class Driver:
    """What the driver says of the GPUs, each time that it is asked."""

    answers: list[GpuReading | None]
    asked: list[str] = field(default_factory=list[str])

    def __call__(self, uuids: Sequence[str]) -> tuple[GpuReading, ...]:
        self.asked += uuids
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return () if answer is None else (answer,)


def reading(*processes: Process, used_mib: int | None = None, lost: str = "") -> GpuReading:
    used = sum(process.used_mib or 0 for process in processes) if used_mib is None else used_mib
    return GpuReading(uuid="GPU-0", at=0.0, used_mib=used, processes=processes, lost=lost)


NOBODY = Process(pid=4_000_000, used_mib=700, visible=False)
DRAWING = Process(pid=4_000_000, used_mib=700, graphics=True, visible=False)


@pytest.mark.parametrize(
    ("answers", "fate"),
    [
        ([None], Unproven("the driver does not tell what runs on its GPU")),
        ([reading(lost="GPU is lost")], Unproven("its GPU does not answer: GPU is lost")),
        ([reading(NOBODY)], Unproven("pid 4000000 on its GPU may belong to it: nothing else explains it")),
        ([reading(used_mib=31744)], Unproven("31.0 GiB of its GPU are used by nothing that can be seen")),
        ([reading(DRAWING)], "lost"),
        ([reading(used_mib=600)], "lost"),
        ([reading(NOBODY), reading()], "lost"),
    ],
    ids=["no answer", "lost GPU", "a stranger", "memory", "a screen", "the driver's own", "just leaving"],
)
@launched
async def test_what_its_gpu_says_of_an_attempt_of_which_nothing_is_found(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, answers: list[GpuReading | None], fate: Fate
) -> None:
    if fate != "lost":  # else what may leave has the time that it gets
        monkeypatch.setattr(adopt, "_DRAINING_S", 0.1)
        monkeypatch.setattr(adopt, "_AGAIN_S", 0.02)
    rig.replace_launcher(look=Driver(answers))
    assert rig.launcher.recover([Known(OLD, 999_999, 1, claims=("GPU-0",))]) == {OLD: fate}


@pytest.mark.parametrize(
    "script",
    ["env -i sleep 99 & echo $!; wait", "(env -i sleep 99 >/dev/null & echo $!); exec sleep 99"],
    ids=["a child", "an orphan"],
)
@launched
async def test_processes_of_another_attempt_do_not_speak_against_a_loss(rig: Rig, script: str) -> None:
    other = rig.start("sh", "-c", script)
    pid = await rig.pid_from(other)
    rig.record(OLD).write_text(start_line(999_999, 1))
    known = [Known(OLD, 999_999, 1, claims=("GPU-0",)), Known(other, rig.pids[other], rig.ticks[other])]
    rig.replace_launcher(look=Driver([reading(Process(pid=pid, used_mib=700))]))
    assert rig.launcher.recover(known)[OLD] == "lost"


@launched
async def test_the_driver_is_not_asked_about_an_attempt_that_lives_or_has_no_gpu(rig: Rig) -> None:
    token, driver = rig.start("sh", "-c", "echo up; exec sleep 99"), Driver([None])
    await rig.text(token)
    rig.replace_launcher(look=driver)
    alive = Known(token, rig.pids[token], rig.ticks[token], claims=("GPU-0",))
    on_none = [Known(OLD, 999_999, 1), Known(f"{OLD}-sim", 999_999, 1, claims=("SIM-0",))]
    assert rig.launcher.recover([alive, *on_none]) == {token: "adopted", OLD: "lost", f"{OLD}-sim": "lost"}
    assert not driver.asked


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
async def test_a_wrapper_that_is_about_to_write_its_first_line_is_waited_for(rig: Rig) -> None:
    script = f"(sleep 0.1; touch go) & {HELD_IN_ITS_FIRST_LINE}"
    env = {**os.environ, "GPUDECK_TOKEN": OLD}
    argv = ("sh", "-c", script, "sh", str(rig.record(OLD)))
    with subprocess.Popen(argv, cwd=rig.folder, stdout=subprocess.PIPE, start_new_session=True, env=env) as held:
        assert held.stdout
        held.stdout.readline()
        fates = rig.launcher.recover([Known(OLD, 0, 0)])
        held.kill()
    assert fates == {OLD: "adopted"}


@launched
async def test_a_torn_end_line_counts_for_nothing(rig: Rig) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1) + "end 0 11.0")
    assert rig.launcher.recover([known]) == {OLD: "lost"}


@pytest.mark.parametrize("refused", ["spawn-log", "spawn-fork"])
@launched
async def test_an_attempt_that_got_no_log_or_no_process_never_ran(rig: Rig, refused: str) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1) + f"end {refused} 11.00\n")
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
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: Unproven()}
    await asyncio.sleep(0)
    assert not rig.inputs


@launched
async def test_a_record_removed_under_a_running_attempt_does_not_make_it_start_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt, "_BIRTH_S", 0.1)
    known = left_by_a_killed_engine(rig, "sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 4")
    rig.record(OLD).unlink()
    assert rig.launcher.recover([known]) == {OLD: "adopted"}
    (rig.folder / "go").touch()
    assert (await rig.leader_end(OLD)).code == 4


@launched
async def test_a_record_removed_of_an_attempt_that_is_gone_makes_it_lost(rig: Rig) -> None:
    assert rig.launcher.recover([Known(OLD, 999_999, 1)]) == {OLD: "lost"}


@pytest.mark.parametrize(("text", "fate"), [("", "lost"), ("end 3 11.00\n", "ended")])
@launched(same_boot=False)
async def test_after_a_reboot_nothing_lives(rig: Rig, text: str, fate: str) -> None:
    stranger = rig.start("sleep", "99")
    line = start_line(rig.pids[stranger], rig.ticks[stranger])
    known = replace(dead_wrapper(rig, line + text), pid=rig.pids[stranger], start_ticks=rig.ticks[stranger])
    assert rig.launcher.recover([known]) == {OLD: fate}
    await rig.tree_end(OLD)
    assert (await rig.leader_end(OLD)).code == (3 if text else None)
    assert lives(rig.pids[stranger])


@launched(same_boot=False)
async def test_a_missing_record_after_a_reboot_does_not_prove_that_nothing_ran(rig: Rig) -> None:
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "lost"}


@launched(same_namespace=False)
async def test_pids_of_another_namespace_prove_nothing(rig: Rig) -> None:
    known = dead_wrapper(rig, start_line(999_999, 1))
    assert rig.launcher.recover([known]) == {OLD: Unproven()}


@launched
async def test_where_pids_prove_nothing_its_token_does(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo up; sleep 99")
    await rig.text(token)
    known = Known(token, rig.pids[token], rig.ticks[token])
    rig.replace_launcher(same_namespace=False)
    assert rig.launcher.recover([known]) == {token: "adopted"}


@launched(same_namespace=False)
async def test_a_process_that_has_the_pid_of_another_namespaces_wrapper_here_is_not_it(rig: Rig) -> None:
    with subprocess.Popen(["sleep", "300"]) as stranger:
        known = dead_wrapper(rig, start_line(stranger.pid, int(boottime_s() * proc.TICKS_PER_S) + 1))
        fates = rig.launcher.recover([known])
        stranger.kill()
    assert fates == {OLD: Unproven()}


@launched
async def test_recovering_twice_tells_the_same(rig: Rig) -> None:
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "never ran"}
    await rig.tree_end(OLD)
    assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "never ran"}


@launched
async def test_a_wrapper_that_comes_after_the_verdict_runs_nothing(rig: Rig) -> None:
    rig.launcher.recover([Known(OLD, 0, 0)])
    with LateWrapper(rig, OLD, ("touch", "ran")) as late:
        late.go()
    assert late.code == 125
    assert not (rig.folder / "ran").exists()


@launched
async def test_of_races_with_a_late_wrapper_each_has_one_winner(rig: Rig) -> None:
    fates = {"never ran": 0, "adopted": 0, "ended": 0}
    for number in range(60):
        token, lead = f"race{number}", number % 20
        ran = rig.folder / f"ran{number}"
        with LateWrapper(rig, token, ("touch", str(ran))) as late:
            if lead:  # 0: the verdict comes first
                late.go()
            if lead == 19:  # the wrapper comes first
                await until(rig.record(token).exists)
            for _ in range(lead * LOOKS):
                rig.record(token).exists()
            fate = rig.launcher.recover([Known(token, 0, 0)])[token]
        fates[fate] += 1
        assert ran.exists() == (fate != "never ran"), (fate, rig.record(token).read_text())
    assert fates["never ran"] >= 3, fates
    assert fates["adopted"] + fates["ended"] >= 3, fates


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
    assert (record.parse(whole).pid, record.parse(whole).uptime_s) == (7, 0.08)
    assert (record.parse(whole).end, record.parse(whole).end_uptime_s) == ("137", 12.5)
    for cut in range(len(whole)):
        assert record.parse(whole[:cut]).end == ""


def test_a_name_with_parentheses_and_newlines_does_not_confuse_a_stat_line() -> None:
    line = b"41 (a) S 1 (b\nc) Z 7 8 9 34816 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0"
    process = proc.parse_stat(line)
    assert process is not None
    assert (process.state, process.ppid, process.session, process.start_ticks) == ("Z", 7, 9, 77)
