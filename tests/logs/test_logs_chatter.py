"""What libraries and launchers write after an error is neither its message nor the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inside.logs import classify, digest, is_chatter, lines_of, stands_alone

WANDB = (Path(__file__).parent / "samples" / "wandb.err").read_text()
SYNCED = WANDB[WANDB.index("wandb: \nwandb: Run history") :]
ERROR = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x10 and 12x4)"
TRACEBACK = WANDB[WANDB.index("Traceback") : WANDB.index(ERROR)] + ERROR + "\n"


def reason(err: str, out: str = "") -> str:
    return classify(lines_of(err.encode()), lines_of(out.encode()), exit_code=1, signal=None).detail


@pytest.fixture
def shown(tmp_path):
    def read(err: str, out: str = "") -> tuple[str, ...]:
        (tmp_path / "attempt-1.err").write_text(err)
        (tmp_path / "attempt-1.log").write_text(out)
        return digest(str(tmp_path / "attempt-1.err"), str(tmp_path / "attempt-1.log"))

    return read


def test_the_exception_is_the_reason_although_the_tracker_says_more_after_it():
    assert reason(WANDB) == ERROR


def test_the_exceptions_line_ends_the_digest_although_the_tracker_says_more_after_it(shown):
    assert shown(WANDB)[-1] == ERROR


@pytest.mark.parametrize(
    "later",
    [
        SYNCED,
        "\x1b[34m\x1b[1mwandb\x1b[0m: \x1b[33mWARNING\x1b[0m 1 file failed to upload\n",
        "COMET INFO: Uploading 1 metrics, params and output messages\n",
        "🏃 View run bold-hawk-4 at: http://localhost:5000/#/experiments/0/runs/6f1\n",
        "2024-03-11 10:11:12,345 - INFO - closing writers\n",
        "[2024-03-11 10:11:12,345][train][INFO] - bye\n",
        "INFO:root:closing writers\n",
        "[10:11:12] INFO     closing writers\n",
        "[rank0]:[W311 10:11:12.000000000 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not "
        "called before program exit\n",
        "node1:4711:4822 [0] NCCL INFO comm 0x55d0 rank 0 nranks 4 cudaDev 0 busId 1000 - Abort COMPLETE\n",
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to "
        "be 6 leaked semaphore objects to clean up at shutdown\n  warnings.warn('resource_tracker: There appear to '\n",
        "srun: error: node1: task 0: Exited with exit code 1\n",
        "slurmstepd: error: *** STEP 81.0 ON node1 CANCELLED AT 2024-03-11T10:11:12 ***\n",
    ],
)
def test_no_library_or_launcher_goes_on_with_an_exceptions_message(shown, later):
    assert shown(TRACEBACK + later)[-1] == ERROR


@pytest.mark.parametrize(
    "message",
    [
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        'Missing key(s) in state_dict: "head.weight", "head.bias".',
        "        size mismatch for head.weight: copying a param with shape torch.Size([10, 512])",
        "ncclUnhandledCudaError: Call to CUDA function failed (run with NCCL_DEBUG=INFO for details)",
        "Last error:",
    ],
)
def test_a_message_of_several_lines_goes_on(shown, message):
    assert shown(f"{TRACEBACK}{message}\n{SYNCED}")[-1] == message


@pytest.mark.parametrize(
    "exception", ["__main__.main.<locals>.BadRate: 1.5", "mañana.Fehler: bad rate", "ValueError: log level INFO is new"]
)
def test_an_exception_of_any_name_goes_before_what_is_said_after_it(exception):
    assert reason(TRACEBACK.replace(ERROR, exception) + SYNCED) == exception


def test_what_the_tracker_says_is_no_exception_of_a_traceback_that_was_cut():
    assert not reason(TRACEBACK.replace(ERROR + "\n", "") + SYNCED).startswith("wandb")


@pytest.mark.parametrize(
    "later",
    [
        "saving the failed samples to /tmp/samples\n",
        "2024-03-11 10:11:12 ERROR uploader: 3 files were not uploaded\n",
        "srun: error: node1: task 0: Exited with exit code 1\n",
        SYNCED,
    ],
)
def test_an_exception_that_was_printed_alone_goes_before_later_words_of_errors(later):
    assert reason("loading\nRuntimeError: no data in /data\n" + later) == "RuntimeError: no data in /data"


def test_a_usage_error_goes_before_the_launchers_word_on_it():
    usage = "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --lrr 1\n"
    later = "srun: error: node1: task 0: Exited with exit code 2\n"
    assert reason(usage + later) == "train.py: error: unrecognized arguments: --lrr 1"


def test_a_launchers_word_is_better_than_none():
    assert reason("loading\nsrun: error: Unable to create step: Invalid argument\n").startswith("srun: error: Unable")


def test_an_error_stays_in_the_digest_under_any_number_of_the_trackers_lines(shown):
    assert shown("loading\nRuntimeError: no data\n" + SYNCED * 10) == ("loading", "RuntimeError: no data")


def test_an_error_of_stdout_is_shown_where_stderr_has_only_the_trackers_lines(shown):
    assert shown(SYNCED, "loading\nRuntimeError: no data\n") == ("loading", "RuntimeError: no data")


def test_a_tasks_exception_that_nobody_took_is_not_the_end_of_the_program():
    late = "Task exception was never retrieved\nfuture: <Task finished name='Task-2' coro=<f() done>>\n"
    assert reason(TRACEBACK + late + TRACEBACK.replace(ERROR, "OSError: late")) == ERROR


def test_numbers_that_were_printed_for_us_are_no_reason():
    marks = "::gpudeck progress=2/10 error=0.3\n"
    assert reason("the data set is empty\n" + marks * 20) == "the data set is empty"
    assert reason(marks) == ""


def test_numbers_that_were_printed_for_us_do_not_fill_the_digest(shown):
    marks = "".join(f"::gpudeck progress={step}/99 loss=0.3\n" for step in range(99))
    assert shown("the data set is empty\n" + marks) == ("the data set is empty", marks.splitlines()[-1])


def test_the_last_words_of_a_log_are_no_chatter():
    assert [line for line in ("giving up", "INFO giving up", "no data, see the log") if is_chatter(line)] == []


def test_an_exception_does_not_stand_alone_as_a_log_entry_does():
    assert not stands_alone("ValueError: ERROR is no level")
