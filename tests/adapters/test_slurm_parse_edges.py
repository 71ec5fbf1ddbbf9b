"""Texts of Slurm's programs that look like others: each is told apart."""

from __future__ import annotations

import pytest

from tests.inside.adapters import cause_of, jobfiles, refusal, squeue_jobs, stand, submitted_id


def test_of_a_long_complaint_the_last_two_lines_are_told_once() -> None:
    text = "sbatch: error: first\nsbatch: error: QOSMaxGRESPerJob\nsbatch: error: Batch job submission failed: Job\n"
    assert refusal(1, text).why == "QOSMaxGRESPerJob; Batch job submission failed: Job"
    assert refusal(1, "sbatch: error: same\nsbatch: error: same\n").why == "same"


def test_success_without_a_job_id_is_a_doubt_whatever_was_printed() -> None:
    assert refusal(0, "sbatch: lua: welcome\n").kind == "doubt"


def test_words_of_doubt_go_before_words_of_being_busy() -> None:
    text = "sbatch: error: Unable to contact slurm controller (connect failure)\nsbatch: error: Socket timed out\n"
    assert refusal(1, text).kind == "doubt"


def test_a_step_of_a_job_is_no_job() -> None:
    assert squeue_jobs("8.batch|RUNNING|None|N/A|node1|gpudeck aa|x\n8.0|RUNNING|None|N/A|node1|gpudeck aa|x\n") == []


def test_a_comment_that_only_mentions_us_is_somebody_elses() -> None:
    (job,) = squeue_jobs("8|RUNNING|None|N/A|node1|my gpudeck aa|x\n")
    assert (job.token, job.batch) == ("", "")


def test_of_several_numbers_the_last_is_the_job() -> None:
    assert submitted_id("nodes free:\n12\n4711;cluster\n") == "4711"


@pytest.mark.parametrize(
    ("state", "stands", "cause"),
    [
        ("CONFIGURING", "pending", ""),
        ("REQUEUED", "pending", ""),
        ("STAGE_OUT", "running", ""),
        ("REVOKED", "over", "cancelled"),
        ("LAUNCH_FAILED", "over", "launch"),
        ("RECONFIG_FAIL", "over", "launch"),
        ("", "running", ""),
    ],
)
def test_where_jobs_in_rarer_states_stand_and_why_they_ended(state: str, stands: str, cause: str) -> None:
    assert (stand(state), cause_of(state)) == (stands, cause)


def test_a_grace_that_is_over_is_none() -> None:
    assert jobfiles.stop_text("TERM", -3.0, "group") == "TERM 0.00 group\n"
