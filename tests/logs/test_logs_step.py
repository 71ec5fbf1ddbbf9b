"""Which of srun's tasks is the reason, as recorded from Slurm 22.05 and from `--kill-on-bad-exit`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.spec import TaskSpec, Work
from tests.inside.logs import AttemptPaths, RunningAttempt, describe, examine, split_step, step_cause

EXITED = """\
srun: error: node2: task 3: Exited with exit code 4
srun: launch/slurm: _step_signal: Terminating StepId=1.0
srun: error: node2: task 2: Terminated
slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-11-23T10:24:16 ***
srun: error: node1: tasks 0-1: Terminated
srun: Force Terminated StepId=1.0
"""
CRASHED = """\
srun: error: node1: task 1: Segmentation fault (core dumped)
srun: launch/slurm: _step_signal: Terminating StepId=1.1
srun: error: node1: task 0: Terminated
"""
ALL = """\
srun: error: node1: tasks 0-1: Exited with exit code 3
srun: launch/slurm: _step_signal: Terminating StepId=1.2
srun: error: node2: tasks 2-3: Exited with exit code 3
"""
TRACE = 'Traceback (most recent call last):\n  File "t.py", line 8, in <module>\n    step()\nValueError: bad batch\n'


@pytest.mark.parametrize(("said", "rank", "code"), [(EXITED, 3, 4), (CRASHED, 1, -11), (ALL, 0, 3)])
def test_the_task_that_srun_names_first_is_the_cause(said: str, rank: int, code: int) -> None:
    found = step_cause(["step 1", *said.splitlines()])
    assert found is not None
    assert (found.rank, found.exit_code) == (rank, code)


def test_an_end_in_words_of_slurms_own_has_no_code() -> None:
    found = step_cause(["srun: error: gpu-07: task 2: Out Of Memory"])
    assert found is not None
    assert (found.rank, found.exit_code) == (2, None)


def test_srun_that_names_no_task_tells_no_cause() -> None:
    assert step_cause(["srun: error: Unable to create step for job 7: Invalid argument"]) is None


def test_sruns_words_are_no_rank_s() -> None:
    own, said = split_step(["loss 1", *CRASHED.splitlines()])
    assert (own, len(said)) == (["loss 1"], 3)


def ended(folder: Path, first: str, *others: str, code: int) -> str:
    """How an attempt of several ranks that left these words on stderr ended, in a line."""
    out, err = str(folder / "attempt-1.log"), str(folder / "attempt-1.err")
    Path(out).write_text("step 1\n")
    Path(err).write_text(first)
    for rank, text in enumerate(others, start=1):
        (folder / f"attempt-1.rank{rank}.log").write_text("step 1\n")
        (folder / f"attempt-1.rank{rank}.err").write_text(text)
    spec = TaskSpec("t", "t", 0, Work(("t",)), "f")
    attempt = RunningAttempt("token", spec, AttemptPaths(out, err, "", str(folder)), 0.0)
    return describe(examine(attempt, code, None, before={}))


def test_the_traceback_of_the_rank_that_failed_first_is_the_reason(tmp_path: Path) -> None:
    """srun's own code is 143 then, for it has ended the others."""
    assert ended(tmp_path, EXITED, "", "", TRACE, code=143) == "rank 3 of 4: exit code 4: ValueError: bad batch"


def test_a_rank_that_a_signal_ended_is_named_with_it(tmp_path: Path) -> None:
    assert ended(tmp_path, CRASHED, "", code=143).startswith("rank 1 of 2 killed by SEGV")


def test_of_ranks_that_all_fail_the_first_ones_words_are_not_sruns(tmp_path: Path) -> None:
    assert ended(tmp_path, TRACE + ALL, TRACE, code=3) == "rank 0 of 2: exit code 3: ValueError: bad batch"
