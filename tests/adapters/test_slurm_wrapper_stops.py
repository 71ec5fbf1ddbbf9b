"""How a job's wrapper ends what it runs: asked by the engine, by Slurm, or by nobody it can see any more."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from gpudeck.engine.adapters.slurm import jobfiles, wrapper
from tests.e2e.decks import until
from tests.fakes.job_rig import PATIENCE_S, TOKEN, Node, carriers, ending, node_in, python

COUNTS = """
import signal, sys, time
def heard(number, _):
    print(signal.Signals(number).name, flush=True)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), heard)
print("ready", flush=True)
while True:
    time.sleep(99)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(99)"
LEAVES_ONE = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
"""
LEAVES_ONE_AND_STAYS = LEAVES_ONE + "print('ready', flush=True)\nchild.wait()\n"


def codes_after(node: Node, act: str, *, grace_s: float = 60.0, scope: str = "group", name: str = "TERM") -> int:
    with ending(node.run()) as process:
        node.said("ready")
        if act == "file":
            node.stop(name, grace_s, scope)
        else:
            process.send_signal(getattr(signal, act))
        return process.wait(PATIENCE_S)


def test_a_stop_file_sends_the_signal_to_the_command(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99")
    assert codes_after(node, "file") == 143


def test_a_stop_by_the_engine_is_not_told_as_one_by_slurm(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99")
    codes_after(node, "file")
    assert (node.ended.code, node.ended.signal) == (143, "")


def test_a_command_that_heeds_the_signal_ends_with_its_own_code(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done")
    assert codes_after(node, "file", name="INT") == 9


def test_a_signal_may_be_a_number(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done")
    assert codes_after(node, "file", name="2") == 9


def test_what_does_not_heed_it_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    assert codes_after(node_in(tmp_path, *python(DEAF)), "file", grace_s=0.2) == 137


def test_a_second_stop_with_less_grace_hastens_it(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM")
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 1000)
        node.said("SIGTERM")
        node.stop("KILL", 0)
        assert process.wait(PATIENCE_S) == 137


def test_a_second_stop_with_more_grace_changes_nothing(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM")
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 3)
        node.said("SIGTERM")
        node.stop("TERM", 1000)
        assert process.wait(PATIENCE_S) == 137


def test_the_signal_goes_to_the_whole_group_once(tmp_path: Path) -> None:
    both = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {COUNTS!r}, 'SIGTERM']))"
    node = node_in(tmp_path, *python(both))
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 1000)
        node.said("SIGTERM")
        node.stop("KILL", 0)
        process.wait(PATIENCE_S)
    assert node.out == "ready\nSIGTERM\n"


def test_with_the_leaders_scope_the_others_hear_it_at_half_of_the_grace(tmp_path: Path) -> None:
    leader = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: print("leader", flush=True))
sys.exit(subprocess.call([sys.executable, "-c", {COUNTS!r}, "SIGTERM"]))
"""
    node = node_in(tmp_path, *python(leader))
    codes_after(node, "file", grace_s=2, scope="leader")
    assert node.out == "ready\nleader\nSIGTERM\n"


def test_a_process_in_a_session_of_its_own_ends_too(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(LEAVES_ONE_AND_STAYS))
    codes_after(node, "file", grace_s=0.5)
    assert carriers() == []


def test_one_without_its_environment_ends_too(tmp_path: Path) -> None:
    bare = LEAVES_ONE_AND_STAYS.replace("start_new_session=True", "start_new_session=True, env={}")
    node = node_in(tmp_path, *python(bare))
    with ending(node.run()) as process:
        node.said("ready")
        deaf = [int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and _runs(int(pid), DEAF)]
        node.stop("TERM", 0.2)
        process.wait(PATIENCE_S)
        assert deaf
        assert not [pid for pid in deaf if _runs(pid, DEAF) and _state(pid) != "Z"]


def test_slurms_term_is_told_and_ends_it_within_the_grace(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(DEAF), grace_s=0.5)
    assert (codes_after(node, "SIGTERM"), node.ended.code, node.ended.signal) == (137, 137, "TERM")


def test_slurms_term_is_not_repeated_at_once(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM", grace_s=2.0)
    codes_after(node, "SIGTERM")
    assert node.out == "ready\nSIGTERM\n"


def test_slurms_term_becomes_the_tasks_own_stop_signal(tmp_path: Path) -> None:
    node = node_in(
        tmp_path, "bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done", stop_signal="INT"
    )
    assert (codes_after(node, "SIGTERM"), node.ended.signal) == (9, "TERM")


def test_near_slurms_limit_it_is_stopped_and_told_so(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99", limit_s=30.0, grace_s=60.0)
    assert (codes_after(node, "SIGUSR2"), node.ended.signal) == (143, "limit")


def test_near_slurms_limit_those_who_catch_the_warning_get_it(tmp_path: Path) -> None:
    warned = "trap 'echo saved; exit 4' USR1; echo ready; while :; do sleep 0.1; done"
    node = node_in(tmp_path, "bash", "-c", warned, limit_s=300.0, warn_signal="USR1", warn_before_s=300.0)
    assert (codes_after(node, "SIGUSR2"), node.out) == (4, "ready\nsaved\n")


def test_slurm_says_so_too_soon_and_the_warning_waits_for_its_time(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM", "SIGUSR1", limit_s=6000.0, warn_signal="USR1")
    with ending(node.run()) as process:
        node.said("ready")
        process.send_signal(signal.SIGUSR2)
        node.stop("TERM", 0.5)
        process.wait(PATIENCE_S)
    assert node.out == "ready\nSIGTERM\n"


def test_who_was_warned_by_the_engine_is_not_warned_of_the_limit_again(tmp_path: Path) -> None:
    near = {"limit_s": 30.0, "grace_s": 60.0, "warn_signal": "USR1"}
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM", "SIGUSR1", **near)
    with ending(node.run()) as process:
        node.said("ready")
        node.warn("USR1")
        node.said("SIGUSR1")
        process.send_signal(signal.SIGUSR2)
        node.said("SIGTERM")
        node.stop("KILL", 0)
        process.wait(PATIENCE_S)
    assert node.out == "ready\nSIGUSR1\nSIGTERM\n"


def test_the_warning_of_a_limit_does_not_take_what_is_left(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(COUNTS), "SIGTERM", "SIGUSR1", limit_s=6000.0)
    with ending(node.run()) as process:
        node.said("ready")
        process.send_signal(signal.SIGUSR2)
        node.warn("USR1")
        node.said("SIGUSR1")
        assert "SIGTERM" not in node.out


def test_a_warning_goes_only_to_those_who_catch_it(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", f"sleep 98 & {sys.executable} -c '{COUNTS}' SIGUSR1")
    with ending(node.run()) as process:
        node.said("ready")
        node.warn("USR1")
        node.said("SIGUSR1")
        assert process.poll() is None


def test_a_warning_waits_for_somebody_who_catches_it(tmp_path: Path) -> None:
    late = "until [ -e go ]; do sleep 0.05; done; trap 'exit 4' USR1; while :; do sleep 0.1; done"
    node = node_in(tmp_path, "bash", "-c", late)
    with ending(node.run()) as process:
        node.warn("USR1")
        until(lambda: os.path.exists(node.file("alive")), PATIENCE_S)
        (tmp_path / "go").touch()
        assert process.wait(PATIENCE_S) == 4


@pytest.mark.parametrize("leftovers", ["stop", "wait"])
def test_the_end_is_told_once_nothing_of_the_tree_lives(tmp_path: Path, leftovers: str) -> None:
    rest = "import time; time.sleep(1); open('rest', 'w').close()" if leftovers == "wait" else DEAF
    node = node_in(
        tmp_path, "bash", "-c", f'{sys.executable} -c "{rest}" >/dev/null & exit 5', leftovers=leftovers, grace_s=0.3
    )
    assert (node.run_to_its_end(), carriers(), (tmp_path / "rest").exists()) == (5, [], leftovers == "wait")


@pytest.mark.parametrize("at_once", [True, False], ids=["after a moment", "after a while"])
def test_a_process_that_has_left_the_commands_group_is_found_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    text = wrapper.WRAPPER.replace("gd_began < 2000", f"gd_began < {30_000 if at_once else 0}")
    assert text != wrapper.WRAPPER
    monkeypatch.setattr("gpudeck.engine.adapters.slurm.script.WRAPPER", text)
    left = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True)
sys.exit(5)
"""
    node = node_in(tmp_path, *python(left), grace_s=0.3)
    with ending(node.run()) as process:
        assert (process.wait(PATIENCE_S), carriers()) == (5, [])
    assert node.ended.code == 5


def test_leftovers_are_left_alone_for_a_while_first(tmp_path: Path) -> None:
    soon_done = "import time; time.sleep(0.5); open('rest', 'w').close()"
    node = node_in(tmp_path, "bash", "-c", f'{sys.executable} -c "{soon_done}" & exit 5', linger_s=20.0)
    assert (node.run_to_its_end(), (tmp_path / "rest").exists()) == (5, True)


def test_what_may_be_left_is_not_waited_for(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "sleep 99 & exit 5", leftovers="leave")
    with ending(node.run()) as process:
        assert (process.wait(PATIENCE_S), len(carriers())) == (5, 1)


def test_waiting_for_leftovers_can_be_ended(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "sleep 99 & echo ready; exit 5", leftovers="wait")
    assert codes_after(node, "file") == 5


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    text = wrapper.WRAPPER.replace("gd_lease=45000", "gd_lease=6000")
    monkeypatch.setattr("gpudeck.engine.adapters.slurm.script.WRAPPER", text)


@pytest.mark.slow
def test_a_job_whose_claim_is_gone_ends(tmp_path: Path, short_lease: None) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99")
    with ending(node.run()) as process:
        node.said("ready")
        jobfiles.remove(node.control, TOKEN)
        assert process.wait(PATIENCE_S) == 137


@pytest.mark.slow
def test_a_job_that_cannot_see_its_folder_stands_still_until_it_can(tmp_path: Path, short_lease: None) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready $$; exec sleep 99")
    with ending(node.run()):
        node.said("ready")
        pid = int(node.out.split()[1])
        until(lambda: os.path.exists(node.file("alive")), PATIENCE_S)
        kept = f"{tmp_path}/claim"
        os.rename(node.file("claim"), kept)
        os.mkfifo(node.file("claim"))  # whoever opens it waits, as for a server that is down
        until(lambda: _state(pid) == "T", PATIENCE_S)
        answer = os.open(node.file("claim"), os.O_RDWR)
        os.rename(kept, node.file("claim"))
        os.write(answer, b"1234\n")
        until(lambda: _state(pid) == "S", PATIENCE_S)
        os.close(answer)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def _runs(pid: int, text: str) -> bool:
    try:
        return text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
