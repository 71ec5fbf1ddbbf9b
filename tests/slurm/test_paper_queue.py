"""What a queue on paper says of jobs, and what it does not: Slurm's word explains the want of a wrapper's."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, Submitted
from tests.inside.slurm import in_words, launcher, never_starts
from tests.slurm.launcher_rig import until
from tests.slurm.paper_rig import PaperRig, on_paper


@on_paper
async def test_the_accounts_are_asked_no_oftener_than_the_queue_may_be(rig: PaperRig):
    rig.slurm.accounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_ACCOUNTS_S", 1000.0)
        rig.again()
        _, number = await rig.submitted()
        rig.slurm.drop(number)
        await until(lambda: rig.slurm.calls("sacct"))
        await rig.looks(10)
    assert len(rig.slurm.calls("sacct")) == 1


@on_paper
async def test_two_jobs_that_had_the_same_number_are_both_looked_up(rig: PaperRig):
    rig.slurm.accounts()
    first, number = await rig.submitted()
    (rig.slurm.folder / "ids").write_text("100\n")  # a controller that has lost its jobs counts anew
    rig.slurm.drop(number)
    second, again = await rig.submitted()
    rig.slurm.drop(again)
    assert number == again
    await rig.gone_in_time(first)
    await rig.gone_in_time(second)


@on_paper
async def test_why_a_job_waits_is_told_once(rig: PaperRig):
    token, number = await rig.submitted()
    await rig.told(Pending, token)
    await rig.looks(5)
    rig.slurm.row(number, "PENDING", reason="Resources")
    await until(lambda: len(rig.of(Pending, token)) == 2)
    assert [item.why for item in rig.of(Pending, token)] == ["Priority", "Resources"]


@on_paper
async def test_a_job_that_will_never_start_as_it_is_says_so_and_warns_once(rig: PaperRig):
    words = "its time limit is longer than its partition's"
    for _ in range(2):
        token, number = await rig.submitted(task="long")
        rig.slurm.row(number, "PENDING", reason="PartitionTimeLimit")
        await until(lambda token=token: f"PartitionTimeLimit: {words}" in [each.why for each in rig.of(Pending, token)])
    assert rig.notes == [f"long: Slurm will not start job 101 as it is (PartitionTimeLimit): {words}"]


@pytest.mark.parametrize("reason", ["Priority", "QOSMaxJobsPerUserLimit", "AssocGrpGRES", "QOSMaxGRESPerUser"])
def test_a_limit_that_passes_as_other_jobs_end_is_no_reason_to_warn(reason: str):
    assert never_starts(reason) == ""


@on_paper
async def test_a_job_without_a_reason_waits_in_its_state(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.row(number, "CONFIGURING")
    await until(lambda: any(item.why == "CONFIGURING" for item in rig.of(Pending, token)))


@on_paper
async def test_an_expected_start_that_moves_by_less_than_a_minute_is_no_news(rig: PaperRig):
    token, number = await rig.submitted()
    for at in ("10:00:00", "10:00:59", "10:01:01"):
        rig.slurm.row(number, "PENDING", reason="Priority", start=f"2026-11-23T{at}")
        await rig.looks()
    told = [item.begins for item in rig.of(Pending, token) if item.begins is not None]
    assert [round(at - told[0]) for at in told] == [0, 61]


@on_paper
async def test_a_queue_that_cannot_be_seen_ends_no_job_whatever_it_printed(rig: PaperRig):
    token, number = await rig.running()
    waits, other = await rig.submitted()
    await rig.looks()
    rig.slurm.drop(number)
    rig.slurm.drop(other)
    rig.slurm.silence()
    await rig.later(10000)
    await rig.looks(5)
    assert (rig.over(token), rig.said(token, "stop"), rig.said(waits, "claim")) == (False, "", "")


@on_paper
async def test_silence_is_told_once_and_so_is_its_end(rig: PaperRig):
    await rig.submitted()
    rig.slurm.silence()
    await rig.looks(5)
    rig.slurm.silence(silent=False)
    await until(lambda: len(rig.notes) > 1)
    await rig.looks()
    assert rig.notes == [
        "Slurm does not answer (squeue: Unable to contact slurm controller): what runs goes on",
        "Slurm answers again",
    ]


@on_paper
async def test_a_job_that_vanished_before_it_began_never_runs(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.drop(number)
    await rig.later(90)
    await rig.looks()
    assert rig.said(token, "claim") == ""
    await rig.later(20)
    await rig.never_ran(token)
    assert rig.said(token, "claim") == "void"


@on_paper
async def test_a_job_that_squeue_leaves_out_is_not_submitted_again_while_the_controller_has_it(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.unlist(number)
    for _ in range(4):
        await rig.later(110)
        await rig.looks()
    assert (rig.over(token), rig.said(token, "claim"), rig.slurm.calls("scancel")) == (False, "", [])
    (rig.slurm.folder / "unlisted" / number).unlink()
    await rig.gone_in_time(token)
    await rig.never_ran(token)


@on_paper
async def test_a_running_job_that_squeue_leaves_out_is_not_lost_while_the_controller_has_it(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.unlist(number)
    for _ in range(4):
        await rig.later(910)
        await rig.looks()
    assert (rig.over(token), rig.said(token, "stop")) == (False, "")


@on_paper
async def test_anothers_job_of_the_same_number_does_not_keep_one_alive(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.row(number, "PENDING", text="x")
    rig.slurm.unlist(number)
    await rig.later(110)
    await rig.never_ran(token)


@on_paper
async def test_a_running_job_whose_number_a_controller_gave_out_again_is_looked_for(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "RUNNING", text=f"gpudeck {'f' * 24}")
    await rig.later(910)
    await rig.looks()
    rig.ahead_s += 800
    assert (await rig.over_in_time(token)).code is None


@on_paper
async def test_another_job_that_was_given_the_number_since_is_not_cancelled(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "RUNNING", text=f"gpudeck {'f' * 24}")
    await rig.looks()
    rig.stop(token, grace_s=0)
    await rig.later(5)
    await rig.looks(5)
    assert rig.slurm.calls("scancel") == []


@on_paper
async def test_a_job_stopped_while_an_old_queue_shows_anothers_of_its_number_never_runs(rig: PaperRig):
    """A cached squeue may be older than the controller's loss of its state, and so than the job."""
    token, number = await rig.submitted()
    rig.slurm.row(number, "PENDING", text=f"gpudeck {'f' * 24}")
    await rig.looks()
    rig.stop(token, grace_s=0)
    await rig.gone_in_time(token)
    await rig.looks(20)
    assert rig.said(token, "claim") == "void"


@on_paper
async def test_a_job_that_the_queue_shows_as_its_own_again_is_cancelled(rig: PaperRig):
    token, number = await rig.running()
    own = (rig.slurm.folder / "queue" / number).read_text().split("|")[5]
    rig.slurm.row(number, "RUNNING", text=f"gpudeck {'f' * 24}")
    await rig.looks()
    rig.slurm.row(number, "RUNNING", text=own)
    await rig.looks()
    rig.stop(token, grace_s=0)
    await rig.later(30)
    await rig.looks(5)
    assert rig.slurm.calls("scancel") != []


@on_paper
async def test_a_job_that_comes_back_into_the_queue_has_not_vanished(rig: PaperRig):
    token, number = await rig.submitted()
    await rig.looks()
    text = (rig.slurm.folder / "queue" / number).read_text().split("|")[5]
    rig.slurm.drop(number)
    await rig.later(90)
    rig.slurm.row(number, "PENDING", reason="Priority", text=text)
    await rig.looks()
    rig.slurm.drop(number)
    await rig.later(90)
    await rig.looks()
    assert rig.said(token, "claim") == ""


@on_paper
async def test_a_job_that_vanished_with_its_claim_taken_is_not_given_up_while_its_heart_beats(rig: PaperRig):
    token, number = await rig.submitted()
    rig.claim(token, number)
    rig.slurm.drop(number)
    for _ in range(3):
        rig.beat(token)
        await rig.later(800)
        await rig.looks()
    assert (rig.over(token), rig.said(token, "stop")) == (False, "")
    await rig.later(910)
    end = await rig.end(token)
    assert (end.code, end.detail) == (None, "Slurm does not know it any more, and it wrote no exit code")


@on_paper
async def test_a_running_job_that_vanished_is_lost_once_its_heart_stands_still_and_is_told_to_end(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.drop(number)
    for _ in range(3):
        rig.beat(token)
        await rig.later(800)
        await rig.looks()
    assert (rig.over(token), rig.said(token, "stop")) == (False, "")
    await rig.later(910)
    end = await rig.end(token)
    await until(lambda: rig.said(token, "stop") == "KILL 0.00 group")
    assert (end.code, end.cause) == (None, "")


@pytest.mark.parametrize("text", ["somebody else's", f"gpudeck {'f' * 24}"])
def test_a_job_with_anothers_comment_under_the_same_number_is_not_ours(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.submitted()
        await rig.looks()
        rig.slurm.row(number, "RUNNING", text=text)
        await rig.looks()
        rig.slurm.row(number, "FAILED")
        await rig.later(60)
        await rig.looks()
        assert (rig.over(token), rig.said(token, "claim")) == (False, "")

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_of_two_jobs_of_an_attempt_the_one_that_was_told_counts(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row("999", "FAILED", text=f"gpudeck {token}")
    await rig.later(1000)
    await rig.looks()
    assert ([item.job for item in rig.of(Submitted, token)], rig.over(token)) == ([number], False)


@on_paper
async def test_a_job_that_is_over_gets_some_seconds_to_say_how_it_ended(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "FAILED", nodes="node1")
    await rig.later(40)
    await rig.looks()
    assert not rig.over(token)
    end = await rig.over_in_time(token)
    assert (end.code, end.cause, end.detail) == (None, "", f"{in_words('FAILED')}, and no exit code was written")


@pytest.mark.parametrize(
    ("state", "cause"),
    [("FAILED", ""), ("CANCELLED", "cancelled"), ("TIMEOUT", "timeout"), ("OUT_OF_MEMORY", "oom"),
     ("PREEMPTED", "preempted")],
)  # fmt: skip
def test_a_job_that_is_over_but_whose_heart_beats_is_told_to_end_and_waited_for(
    state: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.running()
        rig.slurm.row(number, state, nodes="node1")
        await rig.looks(10)
        for _ in range(3):
            rig.beat(token)
            await rig.looks()
            await rig.later(800)
        assert (rig.over(token), rig.said(token, "stop")) == (False, "KILL 0.00 group")
        rig.ahead_s += 70
        end = await rig.over_in_time(token)
        assert (end.code, end.cause, rig.notes) == (
            None, cause,
            [f"Slurm says {state} of job {number}, which goes on on node1: it is told to end, and waited for"],
        )  # fmt: skip

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_a_job_that_is_over_and_whose_heart_stands_still_is_not_told_to_end(rig: PaperRig):
    token, number = await rig.running()
    rig.beat(token)
    rig.slurm.row(number, "CANCELLED", nodes="node1")
    await rig.looks(10)
    await rig.over_in_time(token)
    assert (rig.said(token, "stop"), rig.notes) == ("", [])


@on_paper
async def test_a_job_that_is_over_but_goes_on_ends_once_it_says_so(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "CANCELLED", nodes="node1")
    await rig.looks(10)
    rig.beat(token)
    await until(lambda: rig.said(token, "stop"))
    rig.end_with(token, 137)
    end = await rig.end(token)
    assert (end.code, end.cause) == (137, "cancelled")


@on_paper
async def test_an_exit_code_that_comes_while_its_files_are_read_is_its_end(rig: PaperRig):
    token, number = await rig.running()
    pipe = await _read_at_the_end(rig, token, number)
    rig.end_with(token, 3)
    os.close(pipe)
    assert (await rig.end(token)).code == 3


@on_paper
async def test_a_job_that_runs_again_while_its_files_are_read_goes_on(rig: PaperRig):
    token, number = await rig.running()
    pipe = await _read_at_the_end(rig, token, number)
    rig.slurm.row(number, "RUNNING", nodes="node1")
    await rig.looks()
    os.close(pipe)
    await rig.looks()
    assert not rig.over(token)


async def _read_at_the_end(rig: PaperRig, token: str, number: str) -> int:
    """Let Slurm say that it failed, until its files are being read: its claim is a pipe, and the reader is held up
    until what this returns, its other end, is closed."""
    claim, held = rig.control / f"{token}.claim", list[int]()
    claim.unlink()
    os.mkfifo(claim)
    rig.slurm.row(number, "FAILED", nodes="node1")

    def reads() -> bool:
        rig.ahead_s += 1
        with contextlib.suppress(OSError):  # nobody has it open
            held.append(os.open(claim, os.O_WRONLY | os.O_NONBLOCK))
        return bool(held)

    await until(reads)
    claim.unlink()
    rig.claim(token, number)  # for whoever reads it after that
    return held[0]


@on_paper
async def test_why_a_job_waited_is_not_told_as_why_it_ended(rig: PaperRig):
    token, number = await rig.submitted()
    await rig.told(Pending, token)
    rig.slurm.accounts(rig.account(token, number, "FAILED"))
    rig.slurm.drop(number)
    end = await rig.end(token)
    assert "(Slurm says FAILED)" in end.spawn_error


@on_paper
async def test_why_a_job_ended_is_told_where_slurm_says_it(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.row(number, "FAILED", reason="JobLaunchFailure")
    end = await rig.end(token)
    assert "(Slurm says FAILED, JobLaunchFailure)" in end.spawn_error


@on_paper
async def test_what_it_says_in_that_time_is_its_end(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "FAILED", nodes="node1")
    await rig.looks()
    rig.end_with(token, 3)
    assert (await rig.end(token)).code == 3


@on_paper
async def test_a_job_that_completes_is_not_over(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "COMPLETING", nodes="node1")
    await rig.later(10000)
    await rig.looks()
    assert not rig.over(token)


@on_paper
async def test_a_state_that_this_version_does_not_know_ends_nothing(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "POWERED_SIDEWAYS", nodes="node1")
    await rig.later(10000)
    await rig.looks()
    assert not rig.over(token)


@on_paper
async def test_a_job_that_runs_again_after_it_seemed_over_goes_on(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "FAILED", nodes="node1")
    await rig.looks()
    rig.slurm.row(number, "RUNNING", nodes="node1")
    await rig.later(1000)
    await rig.looks()
    assert not rig.over(token)


@on_paper
async def test_on_a_node_that_failed_processes_are_told_to_end_and_waited_for(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "NODE_FAIL", nodes="node1")
    await until(lambda: rig.said(token, "stop") == "KILL 0.00 group")
    for _ in range(3):
        rig.beat(token)
        await rig.later(800)
        await rig.looks()
    assert not rig.over(token)
    await rig.later(910)
    end = await rig.end(token)
    assert (end.code, end.cause, end.detail) == (None, "node_fail", "Slurm lost node1")
    assert len(rig.notes) == 1


@on_paper
async def test_a_job_on_a_node_that_failed_which_says_its_end_is_not_waited_for_longer(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.row(number, "NODE_FAIL", nodes="node1")
    await until(lambda: rig.said(token, "stop"))
    rig.end_with(token, 137)
    end = await rig.end(token)
    assert (end.code, end.cause) == (137, "node_fail")


@pytest.mark.parametrize(("state", "cause"), [("CANCELLED", "cancelled"), ("BOOT_FAIL", "node_fail")])
def test_a_job_that_was_over_before_it_began_never_runs(
    state: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.submitted()
        await rig.submitted()  # while there is one the queue is looked at
        rig.slurm.row(number, state)
        end = await rig.end(token)
        assert (end.code, end.cause, rig.said(token, "claim")) == (None, cause, "void")
        await rig.looks()
        assert rig.slurm.calls("scancel") == []

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_a_job_that_is_over_and_began_nothing_says_where_to_look(rig: PaperRig):
    token, number = await rig.submitted()
    rig.slurm.row(number, "FAILED", nodes="node1")
    end = await rig.end(token)
    assert (end.code, end.nodes, end.spawn_error) == (
        125,
        ("node1",),
        f"its job began nothing (Slurm says FAILED): see its log, and whether {rig.control} is there on node1",
    )


@on_paper
async def test_a_job_that_is_over_but_has_its_claim_has_run(rig: PaperRig):
    token, number = await rig.submitted()
    rig.claim(token, number)
    rig.slurm.row(number, "OUT_OF_MEMORY", nodes="node1")
    await rig.looks()
    assert not rig.over(token)
    await rig.later(60)
    end = await rig.end(token)
    assert (end.code, end.cause, rig.said(token, "claim")) == (None, "oom", number)


@on_paper
async def test_what_the_queue_has_forgotten_the_accounting_may_know(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.accounts(rig.account(token, number, "TIMEOUT"))
    rig.slurm.drop(number)
    await until(lambda: rig.slurm.calls("sacct"))
    end = await rig.over_in_time(token)
    assert (end.cause, f"-j {number}" in rig.slurm.calls("sacct")[0], " -S " in rig.slurm.calls("sacct")[0]) == (
        "timeout", True, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "cause", "words"),
    [
        ("CANCELLED by 1000", "cancelled", "by scancel"),
        ("CANCELLED", "node_fail", "Slurm dropped it on node1 and names nobody who cancelled it"),
    ],
)
def test_what_a_controller_has_dropped_was_not_cancelled_by_anybody(
    state: str, cause: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.submitted()
        rig.slurm.accounts(rig.account(token, number, state))
        rig.slurm.drop(number)
        end = await rig.end(token)
        assert (end.cause, end.detail) == (cause, words)

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_the_accountings_word_that_it_runs_ends_nothing(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.accounts(rig.account(token, number, "RUNNING"))
    rig.slurm.drop(number)
    for _ in range(3):
        rig.beat(token)
        await rig.later(800)
        await rig.looks()
    assert not rig.over(token)


@pytest.mark.parametrize("kept", [True, False], ids=["with comments", "without comments"])
def test_the_accountings_word_on_anothers_job_of_the_same_number_ends_nothing(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.running()
        other = "f" * 24
        rig.slurm.accounts(rig.account(other, number, "FAILED", text=f"gpudeck {other}" if kept else ""))
        rig.slurm.drop(number)
        await until(lambda: len(rig.slurm.calls("sacct")) > 1)
        for _ in range(3):
            await rig.later(200)
            await rig.looks()
        assert not rig.over(token)

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_its_own_line_is_found_among_others_of_the_same_number(rig: PaperRig):
    token, number = await rig.running()
    own = rig.account(token, number, "TIMEOUT", text=f"gpudeck {token}", name="x")
    rig.slurm.accounts(own, rig.account("f" * 24, number, "FAILED"))
    rig.slurm.drop(number)
    await until(lambda: rig.slurm.calls("sacct"))
    await rig.looks()
    assert ((await rig.over_in_time(token)).cause, " -D " in rig.slurm.calls("sacct")[0]) == ("timeout", True)


@on_paper
async def test_an_accounting_that_is_off_is_asked_once(rig: PaperRig):
    for _ in range(2):
        token, number = await rig.running()
        rig.slurm.drop(number)
        await until(lambda: rig.slurm.calls("sacct"))
        await rig.later(110)
        await rig.looks()
        rig.end_with(token, 0)
        await rig.end(token)
    assert len(rig.slurm.calls("sacct")) == 1


@on_paper
async def test_an_accounting_that_is_late_is_asked_again(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.accounts()
    rig.slurm.drop(number)
    await until(lambda: len(rig.slurm.calls("sacct")) > 1)
    asked = len(rig.slurm.calls("sacct"))
    rig.slurm.accounts(rig.account(token, number, "TIMEOUT"))
    await until(lambda: len(rig.slurm.calls("sacct")) > asked)
    await rig.looks()
    assert (await rig.over_in_time(token)).cause == "timeout"


@on_paper
async def test_an_accounting_that_takes_its_time_is_asked_once_meanwhile(rig: PaperRig):
    rig.slurm.accounts()
    program = rig.slurm.folder / "bin" / "sacct"
    program.write_text(program.read_text() + "until [ -e $here/go ]; do sleep 0.02; done\n")
    _, number = await rig.running()
    rig.slurm.drop(number)
    await until(lambda: rig.slurm.calls("sacct"))
    await rig.looks(20)
    assert len(rig.slurm.calls("sacct")) == 1
    (rig.slurm.folder / "go").touch()


@on_paper
async def test_a_node_that_the_queue_names_no_more_is_still_named(rig: PaperRig):
    token, number = await rig.running()
    await rig.looks()
    rig.slurm.row(number, "NODE_FAIL")
    await until(lambda: rig.said(token, "stop"))
    rig.end_with(token, 137)
    assert (await rig.end(token)).detail == in_words("NODE_FAIL", "node1")


@on_paper
async def test_a_job_that_is_over_waits_for_a_claim_that_can_be_made(rig: PaperRig):
    token, number = await rig.submitted()
    claim = rig.control / f"{token}.claim"
    claim.mkdir()  # neither made nor read
    rig.slurm.row(number, "CANCELLED")
    await rig.later(1000)
    await rig.looks()
    assert not rig.over(token)
    claim.rmdir()
    await rig.end(token)
    assert rig.said(token, "claim") == "void"
