"""No process of the doctor outlives it, and none keeps it waiting."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.decks import lives, until
from tests.inside.doctor import Child, run, within
from tests.inside.doctor import child as child_module
from tests.inside.e2e import proc


def script(tmp_path: Path, text: str, limit_s: float = 20.0):
    return run(["bash", "-c", text], env=os.environ, cwd=str(tmp_path), limit_s=limit_s)


def test_what_a_process_says_and_its_exit_code_are_told(tmp_path: Path):
    ended = script(tmp_path, "echo out; echo first >&2; echo last >&2; exit 3")
    assert (ended.code, ended.out, ended.how) == (3, "out\n", "exit code 3: last")


def test_a_grandchild_that_keeps_the_output_open_keeps_nobody_waiting(tmp_path: Path):
    ended = script(tmp_path, "sleep 600 & echo $!")
    assert ended.code == 0
    until(lambda: not lives(int(ended.out)))


def test_at_the_limit_the_whole_tree_is_ended_sessions_of_its_own_and_deaf_ones_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_module, "_GRACE_S", 0.2)
    text = "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$ >deaf; sleep 600' & until [ -s deaf ]; do :; done; "
    with Child(["bash", "-c", text + "echo ready; sleep 600"], env=os.environ, cwd=str(tmp_path)) as child:
        until(lambda: "ready" in child.said())
        assert not child.wait(0.1)
    assert child.ended().code is None
    assert not lives(int((tmp_path / "deaf").read_text()))
    assert not lives(child.pid)


def test_a_signal_that_comes_while_a_process_starts_ends_that_too(tmp_path: Path):
    def ends(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    def living() -> set[int]:
        return {pid for pid, each in proc.descend([os.getpid()]).items() if each.live}

    before, others = signal.signal(signal.SIGTERM, ends), living()
    try:
        for _ in range(10):  # it comes before Popen has returned, or after
            with pytest.raises(SystemExit):
                run(["sh", "-c", "kill -TERM $PPID; sleep 600"], env=os.environ, cwd=str(tmp_path), limit_s=20.0)
            assert not living() - others
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("program", "cwd"), [("no-such-program", "."), (sys.executable, "no-such-folder")])
def test_what_cannot_start_is_told_by_its_name(tmp_path: Path, program: str, cwd: str):
    ended = run([program], env=os.environ, cwd=str(tmp_path / cwd), limit_s=5.0)
    assert ended.code == 127
    assert "no-such-" in ended.how
    assert "No such file or directory" in ended.how


def test_a_call_that_hangs_is_given_up_and_errors_are_raised_as_they_are():
    reading, writing = os.pipe()
    try:
        with pytest.raises(TimeoutError):
            within(0.05, lambda: os.read(reading, 1))
    finally:
        os.close(writing)
    with pytest.raises(KeyError):
        within(5.0, lambda: {}["x"])
    assert within(5.0, lambda: 7) == 7
