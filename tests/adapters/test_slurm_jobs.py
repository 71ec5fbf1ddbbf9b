"""Which of Slurm's jobs are an attempt's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.job_rig import JOB, order_in
from tests.inside.adapters import Job, SlurmJob, submission

TOKEN, OTHER = "a" * 24, "b" * 24
BATCH, OTHERS = "c" * 24, "d" * 24


def accounted(number: str, *, token: str = "", batch: str = "", name: str = "x") -> SlurmJob:
    return SlurmJob(number, "FAILED", "node1", token, batch, name)


@pytest.mark.parametrize(
    ("row", "ours"),
    [
        (accounted("7", token=TOKEN), True),
        (accounted("7", token=OTHER, name=f"a-{TOKEN[:8]}"), False),
        (accounted("7", batch=BATCH), False),
        (accounted("7", name=f"a-{TOKEN[:8]}"), True),
        (accounted("7", name=f"a-{OTHER[:8]}"), False),
        (accounted("7", name="train"), False),
    ],
)
def test_a_line_of_the_accounting_is_of_the_attempt_that_it_names(row: SlurmJob, ours: bool) -> None:
    assert Job(TOKEN, id="7").is_in(row) == ours


@pytest.mark.parametrize(
    ("row", "ours"),
    [
        (accounted("7_3", batch=BATCH), True),
        (accounted("7_3", batch=OTHERS), False),
        (accounted("7_3", token=OTHER), False),
        (accounted("7_3", name=f"a-{BATCH[:8]}"), True),
        (accounted("7_3", name=f"a-{OTHERS[:8]}"), False),
    ],
)
def test_a_line_of_the_accounting_is_of_the_element_whose_array_it_names(row: SlurmJob, ours: bool) -> None:
    assert Job(TOKEN, id="7_3", element=f"{BATCH}_3").is_in(row) == ours


def test_an_element_whose_array_nobody_remembers_is_known_by_its_number() -> None:
    job = Job(TOKEN, id="7_3")
    assert [job.is_in(accounted("7_3", batch=OTHERS)), job.is_in(accounted("7_3"))] == [True, True]
    assert not job.is_in(accounted("7_3", token=OTHER))


def test_a_submission_that_may_be_tried_on_any_node_may_take_two_calls(tmp_path: Path) -> None:
    order = order_in(tmp_path)
    avoids = replace(order, job=replace(JOB, exclude=("node1",)))
    assert [submission.longest_s([order]), submission.longest_s([order, avoids])] == [30.0, 60.0]
