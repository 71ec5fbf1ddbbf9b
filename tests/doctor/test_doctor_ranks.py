"""A tiny training really runs on several ranks, and nothing of it stays behind when it does not end well."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.decks import lives
from tests.inside.doctor import Ended, Interpreter, check_ranks, launch

SPOILED = """
import os, pathlib, time
if "RANK" in os.environ:
    pathlib.Path(f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
    if os.environ["RANK"] == "1":
        while not pathlib.Path("pid-0").exists():
            time.sleep(0.01)
        raise SystemExit("RuntimeError: spoiled on purpose")
"""


def python(tmp_path: Path) -> Interpreter:
    return Interpreter(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)}, str(tmp_path))


def result(rank: int, test: str, wrong: str = "") -> dict[str, object]:
    return {"rank": rank, "test": test, "wrong": wrong}


@pytest.mark.torchrun
def test_two_ranks_on_the_cpu_pass_all_tests(tmp_path: Path):
    launched = launch(python(tmp_path), 2, "")
    found = list(check_ranks(*launched))
    assert [each.level for each in found] == ["ok", "ok", "ok"], [each.line for each in found]
    assert [each.check for each in found] == ["distributed basic", "distributed model", "distributed data"]
    assert len(launched[2]) == 6


@pytest.mark.torchrun
def test_a_rank_that_dies_fails_the_check_and_no_rank_stays(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(SPOILED)
    (found,) = check_ranks(*launch(python(tmp_path), 2, ""))
    assert found.level == "fail"
    assert not any(lives(int(path.read_text())) for path in tmp_path.glob("pid-*"))
    assert (tmp_path / "pid-0").exists()


def test_what_a_rank_found_wrong_is_told_and_later_tests_are_not_judged():
    results = [result(0, "basic"), result(1, "basic"), result(0, "model"), result(1, "model", "different gradients")]
    first, second = check_ranks(2, "gloo", results, Ended(0, "", ""))
    assert first.level == "ok"
    assert (second.level, second.text) == ("fail", "2 ranks, gloo: rank 1: different gradients")


def test_ranks_that_wait_for_each_other_fail_with_what_to_try():
    results = [result(0, "basic")]
    (found,) = check_ranks(2, "nccl", results, Ended(None, "", ""))
    assert "no end in time" in found.text
    assert "NCCL_DEBUG=INFO" in found.remedy


def test_the_first_error_of_a_rank_is_told_not_the_launchers_last_line():
    err = "[rank1]: RuntimeError: no such device\n[rank0]: Traceback\nChildFailedError: \n=====\n"
    (found,) = check_ranks(2, "gloo", [], Ended(1, "", err))
    assert found.text == "2 ranks, gloo: RuntimeError: no such device"
