"""How trainings of several processes end, and how other ways of starting them go."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.distributed.ranks import (
    SCRIPTS,
    clean_environment,
    free_port,
    launched,
    rank_environments,
    started_by_hand,
    written,
)
from tests.e2e.decks import until

pytestmark = pytest.mark.torchrun


def test_ten_items_on_four_processes_are_ten_items(tmp_path: Path) -> None:
    ended = started_by_hand("evaluates.py", rank_environments(range(4), 4), str(tmp_path))
    assert [each.code for each in ended] == [0] * 4, ended
    seen = written(tmp_path)
    assert [each["items"] for each in seen] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert [each["mean"] for each in seen] == [4.5] * 4


def test_eight_of_eight_trainings_end_with_code_0() -> None:
    ended = launched((), "ends.py", "8")
    assert (ended.code, ended.out.split()) == (0, ["0"] * 16), ended.err


def test_torchrun_that_is_terminated_ends_after_all_processes_saved_at_the_same_epoch(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    process = subprocess.Popen(
        (*command, str(SCRIPTS / "stops.py"), str(tmp_path)), env=clean_environment(), stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: len(list(tmp_path.glob("pid*"))) == 2 or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
    first, second = ((tmp_path / f"rank{rank}.json").read_text() for rank in (0, 1))
    assert first == second == str(torch.load(tmp_path / "last.pt")["epoch"])


def test_a_group_of_somebody_else_is_used_and_left_alone() -> None:
    ended = started_by_hand("joins_others.py", rank_environments((0, 1), 2))
    assert [(each.code, each.out) for each in ended] == [(0, f"{rank} 2 Replica 0.5 True\n") for rank in (0, 1)], ended


def test_the_older_launcher_and_its_argument_are_understood() -> None:
    ended = launched(("torch.distributed.launch", "--nproc-per-node=2", f"--master-port={free_port()}"), "legacy.py")
    assert (ended.code, ended.out.count("True {'rank': 0.5}")) == (0, 2), ended.err
