"""How a job's wrapper ends what it runs: asked by the engine, by Slurm, or by nobody it can see any more."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.decks import lives, until
from tests.fakes.job_rig import PATIENCE_S, TOKEN, Node, carriers, change_wrapper, ending, look_often, node_in
from tests.inside.adapters import jobfiles

HEARS = """
for signal; do trap "echo $signal" "$signal"; done
exec 5<> <(:)
echo ready
while :; do read -r -t 99 -u 5; done
"""
COUNTS = ("bash", "-c", HEARS, "counts")
"""Followed by the signals that it tells of."""
DEAF = "trap '' TERM; echo ready; exec sleep 99"
ELSEWHERE = """setsid sh -c 'trap "" TERM; echo $$ >up; exec sleep 99' & until [ -s up ]; do sleep 0.01; done"""
"""Leaves a deaf process in a session of its own."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    look_often(monkeypatch)


def codes_after(node: Node, act: str, *, grace_s: float = 60.0, scope: str = "group", name: str = "TERM") -> int:
    with ending(node.run()) as process:
        node.said("ready")
        if act == "file":
            node.stop(name, grace_s, scope)
        else:
            process.send_signal(getattr(signal, act))
        return process.wait(PATIENCE_S)


def test_a_stop_by_the_engine_is_not_told_as_one_by_slurm(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99")
    codes_after(node, "file")
    assert (node.ended.code, node.ended.signal) == (143, "")


def test_whether_a_command_had_ended_before_its_stop_came_is_told(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    stopped = node_in(tmp_path / "one", "bash", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    assert (codes_after(stopped, "file"), stopped.ended.by_itself) == (0, False)
    (tmp_path / "two").mkdir()
    over = node_in(tmp_path / "two", "bash", "-c", "sleep 99 & echo ready; exit 0", linger_s=20.0)
    assert (codes_after(over, "file"), over.ended.by_itself) == (0, True)


@pytest.mark.parametrize("name", ["INT", "2"])
def test_a_command_that_heeds_the_signal_ends_with_its_own_code(tmp_path: Path, name: str) -> None:
    node = node_in(tmp_path, "bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done")
    assert codes_after(node, "file", name=name) == 9


def test_what_does_not_heed_it_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    assert codes_after(node_in(tmp_path, "bash", "-c", DEAF), "file", grace_s=0.2) == 137


def test_a_second_stop_with_less_grace_hastens_it(tmp_path: Path) -> None:
    node = node_in(tmp_path, *COUNTS, "SIGTERM")
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 1000)
        node.said("SIGTERM")
        node.stop("KILL", 0)
        assert process.wait(PATIENCE_S) == 137


def test_a_second_stop_with_more_grace_changes_nothing(tmp_path: Path) -> None:
    node = node_in(tmp_path, *COUNTS, "SIGTERM")
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 0.6)
        node.said("SIGTERM")
        node.stop("TERM", 1000)
        assert process.wait(PATIENCE_S) == 137


def test_the_signal_goes_to_the_whole_group_once(tmp_path: Path) -> None:
    node = node_in(tmp_path, "sh", "-c", '"$@"; :', "leader", *COUNTS, "SIGTERM")
    with ending(node.run()) as process:
        node.said("ready")
        node.stop("TERM", 1000)
        node.said("SIGTERM")
        node.stop("KILL", 0)
        process.wait(PATIENCE_S)
    assert node.out == "ready\nSIGTERM\n"


def test_with_the_leaders_scope_the_others_hear_it_at_half_of_the_grace(tmp_path: Path) -> None:
    leader = """trap 'echo leader' TERM; "$@" & while :; do wait; done"""
    node = node_in(tmp_path, "bash", "-c", leader, "leader", *COUNTS, "SIGTERM")
    codes_after(node, "file", grace_s=1, scope="leader")
    assert node.out == "ready\nleader\nSIGTERM\n"


def test_a_process_in_a_session_of_its_own_ends_too(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", f"{ELSEWHERE}; echo ready; wait")
    codes_after(node, "file", grace_s=0.5)
    assert carriers() == []


def test_one_without_its_environment_ends_too(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", f"env -i {ELSEWHERE}; echo ready; wait")
    with ending(node.run()) as process:
        node.said("ready")
        deaf = int((tmp_path / "up").read_text())
        assert lives(deaf)
        node.stop("TERM", 0.2)
        process.wait(PATIENCE_S)
        assert not lives(deaf)


def test_slurms_term_is_told_and_ends_it_within_the_grace(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", DEAF, grace_s=0.5)
    assert (codes_after(node, "SIGTERM"), node.ended.code, node.ended.signal) == (137, 137, "TERM")


def test_slurms_term_is_not_repeated_at_once(tmp_path: Path) -> None:
    node = node_in(tmp_path, *COUNTS, "SIGTERM", grace_s=0.6)
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
    node = node_in(tmp_path, *COUNTS, "SIGTERM", "SIGUSR1", limit_s=6000.0, warn_signal="USR1")
    with ending(node.run()) as process:
        node.said("ready")
        process.send_signal(signal.SIGUSR2)
        node.stop("TERM", 0.5)
        process.wait(PATIENCE_S)
    assert node.out == "ready\nSIGTERM\n"


def test_who_was_warned_by_the_engine_is_not_warned_of_the_limit_again(tmp_path: Path) -> None:
    near = {"limit_s": 30.0, "grace_s": 60.0, "warn_signal": "USR1"}
    node = node_in(tmp_path, *COUNTS, "SIGTERM", "SIGUSR1", **near)
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
    node = node_in(tmp_path, *COUNTS, "SIGTERM", "SIGUSR1", limit_s=6000.0)
    with ending(node.run()) as process:
        node.said("ready")
        process.send_signal(signal.SIGUSR2)
        node.warn("USR1")
        node.said("SIGUSR1")
        assert "SIGTERM" not in node.out


def test_a_warning_goes_only_to_those_who_catch_it(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", 'sleep 98 & "$@"', "leader", *COUNTS, "SIGUSR1")
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
    rest = "sleep 0.5; touch rest" if leftovers == "wait" else DEAF
    node = node_in(tmp_path, "bash", "-c", f"({rest}) & exit 5", leftovers=leftovers, grace_s=0.3)
    assert (node.run_to_its_end(), carriers(), (tmp_path / "rest").exists()) == (5, [], leftovers == "wait")


@pytest.mark.parametrize("at_once", [True, False], ids=["after a moment", "after a while"])
def test_a_process_that_has_left_the_commands_group_is_found_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    change_wrapper(monkeypatch, "gd_began < 2000", f"gd_began < {30_000 if at_once else 0}")
    node = node_in(tmp_path, "bash", "-c", f"{ELSEWHERE}; exit 5", grace_s=0.3)
    with ending(node.run()) as process:
        assert (process.wait(PATIENCE_S), carriers()) == (5, [])
    assert node.ended.code == 5


def test_leftovers_are_left_alone_for_a_while_first(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "(sleep 0.3; touch rest) & exit 5", linger_s=20.0)
    assert (node.run_to_its_end(), (tmp_path / "rest").exists()) == (5, True)


def test_what_may_be_left_is_not_waited_for(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "sleep 99 & exit 5", leftovers="leave")
    with ending(node.run()) as process:
        assert (process.wait(PATIENCE_S), len(carriers())) == (5, 1)


def test_waiting_for_leftovers_can_be_ended(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "sleep 99 & echo ready; exit 5", leftovers="wait")
    assert (codes_after(node, "file"), node.ended.by_itself) == (5, False)


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    change_wrapper(monkeypatch, "gd_lease=45000", "gd_lease=600")


def test_a_job_whose_claim_is_gone_ends(tmp_path: Path, short_lease: None) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready; exec sleep 99")
    with ending(node.run()) as process:
        node.said("ready")
        jobfiles.remove(node.control, {TOKEN: False})
        assert process.wait(PATIENCE_S) == 137


def test_a_job_that_cannot_see_its_folder_stands_still_until_it_can(tmp_path: Path, short_lease: None) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ready $$; exec sleep 99")
    with ending(node.run()):
        node.said("ready")
        pid = int(node.out.split()[1])
        until(lambda: os.path.exists(node.file("alive")), PATIENCE_S)
        kept, silent = f"{tmp_path}/claim", f"{tmp_path}/silent"
        os.link(node.file("claim"), kept)
        os.mkfifo(silent)
        os.rename(silent, node.file("claim"))  # whoever opens it waits, as for a server that is down
        until(lambda: _state(pid) == "T", PATIENCE_S)
        answer = os.open(node.file("claim"), os.O_RDWR)
        os.rename(kept, node.file("claim"))
        os.write(answer, b"1234\n")
        until(lambda: _state(pid) == "S", PATIENCE_S)
        os.close(answer)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
