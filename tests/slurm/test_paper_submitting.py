"""Attempts on their way into the queue of a cluster of paper: each runs at most once, whatever sbatch does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, SpawnRefused, Submitted
from tests.inside.slurm import submit
from tests.slurm.launcher_rig import until
from tests.slurm.paper_rig import PaperRig, on_paper


@on_paper
async def test_what_slurm_takes_is_told_with_its_number(rig: PaperRig):
    token, number = await rig.submitted()
    await rig.looks()
    assert (number, rig.told_of(token)[0], rig.slurm.calls("sbatch")) == (
        "101", "Submitted", [str(rig.folder / "logs" / token / "attempt-1.sh")],
    )  # fmt: skip


@on_paper
async def test_a_call_that_is_held_up_submits_what_it_was_called_for_and_not_what_was_submitted_since(rig: PaperRig):
    rig.slurm.sbatch("[ $did != 1 ] || until [ -e $here/go ]; do sleep 0.02; done")
    order = rig.order("true")
    late = asyncio.get_running_loop().run_in_executor(None, submit, [order], "", str(rig.control), rig.environ)
    await until(lambda: rig.slurm.calls("sbatch"))
    again = replace(order, token="feed" * 6)
    assert submit([again], "", str(rig.control), rig.environ).kind == "taken"
    (rig.slurm.folder / "go").touch()
    await late
    assert (rig.jobs_named(order.token), rig.jobs_named(again.token)) == (["PENDING"], ["PENDING"])


@on_paper
async def test_what_the_shell_sets_for_sbatch_is_heeded_where_the_task_says_nothing(rig: PaperRig):
    rig.slurm.sbatch('echo "${SBATCH_ACCOUNT-}" >>$here/accounts')
    rig.environ["SBATCH_ACCOUNT"] = "proj"
    rig.launcher.close()
    rig.launcher = rig.launch()
    await rig.submitted()
    await rig.submitted(options={"array": False, "account": "vision"})
    assert (rig.slurm.folder / "accounts").read_text() == "proj\n\n"


@on_paper
async def test_what_slurm_refuses_for_now_is_tried_again_and_only_why_it_waits_is_told(rig: PaperRig):
    rig.slurm.refuse("Slurm temporarily unable to accept job, sleeping and retrying", times=1)
    token, _ = await rig.submitted()
    await rig.looks()
    assert (len(rig.slurm.calls("sbatch")), rig.told_of(token)[0]) == (2, "Submitted")


@on_paper
async def test_a_refusal_is_tried_again_only_once_the_queue_was_seen_without_the_job(rig: PaperRig):
    rig.slurm.silence()
    rig.slurm.refuse("Slurm temporarily unable to accept job, sleeping and retrying", times=1)
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    await rig.looks(10)
    assert len(rig.slurm.calls("sbatch")) == 1
    rig.slurm.silence(silent=False)
    await rig.told(Submitted, token)


@on_paper
async def test_a_job_that_was_taken_although_sbatch_refused_it_is_not_submitted_twice(rig: PaperRig):
    token = rig.order("true").token
    rig.slurm.row("7", "PENDING", reason="Priority", text=f"gpudeck {token}")
    rig.slurm.refuse("Resource temporarily unavailable", times=1)
    rig.start("true", token)
    assert (await rig.told(Submitted, token)).job == "7"
    await rig.looks(5)
    assert len(rig.slurm.calls("sbatch")) == 1


@on_paper
async def test_the_pause_after_a_refusal_doubles_up_to_a_limit_and_is_told_while_it_grows(rig: PaperRig):
    rig.slurm.refuse("QOSMaxSubmitJobPerUserLimit")
    rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) >= 6)
    assert [note.rpartition("tried again in ")[2] for note in rig.notes] == ["0.05 s", "0.1 s", "0.15 s"]


@on_paper
async def test_a_submission_that_is_taken_ends_the_pauses(rig: PaperRig):
    rig.slurm.sbatch('case $did in 3) ;; *) echo "QOSMaxSubmitJobPerUserLimit" >&2; exit 1 ;; esac')
    await rig.submitted()
    rig.start("true")
    await until(lambda: len(rig.notes) == 3)
    assert rig.notes[2].endswith("tried again in 0.05 s")


FULL = "{ echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1; }"


@on_paper
async def test_an_array_that_a_limit_refuses_goes_out_as_single_jobs_without_a_pause(rig: PaperRig):
    rig.limits = replace(rig.limits, back_off_s=1000.0)
    rig.again()
    rig.slurm.sbatch(f'! grep -q -- --array= "$script" || {FULL}')
    tokens = [rig.start("true", options={"array": True}) for _ in range(20)]
    for token in tokens:
        await rig.told(Submitted, token)


@on_paper
async def test_where_a_limit_is_reached_the_next_goes_out_as_soon_as_one_has_ended(rig: PaperRig):
    rig.limits = replace(rig.limits, back_off_s=1000.0, longest_back_off_s=1000.0)
    rig.again()
    rig.slurm.sbatch(f"[ $(ls $here/queue | wc -l) -lt 2 ] || {FULL}")
    (first, number), _ = await rig.running(), await rig.submitted()
    last = rig.start("true")
    await until(lambda: rig.notes)
    await rig.looks()
    assert not rig.of(Submitted, last)
    rig.slurm.drop(number)
    rig.end_with(first, 0)
    await rig.told(Submitted, last)


@on_paper
async def test_those_that_were_refused_go_before_those_that_came_later(rig: PaperRig):
    rig.slurm.sbatch("[ $did -gt 1 ] && hang; echo Resource temporarily unavailable >&2; exit 1")
    first = rig.start("true")
    await until(lambda: rig.notes)
    for _ in range(4):
        rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) == 5)
    assert any(first in script for script in rig.slurm.calls("sbatch")[1:])


@on_paper
async def test_what_slurm_will_never_take_ends_in_sbatchs_words(rig: PaperRig):
    rig.slurm.refuse("Invalid account or account/partition combination specified")
    token = rig.start("true")
    end = await rig.end(token)
    assert (end.code, end.spawn_error, len(rig.slurm.calls("sbatch"))) == (
        125, "sbatch: Invalid account or account/partition combination specified", 1,
    )  # fmt: skip


@on_paper
async def test_an_sbatch_that_is_not_there_for_a_moment_is_tried_again(rig: PaperRig):
    program = rig.slurm.folder / "bin" / "sbatch"
    away = program.rename(program.with_name("away"))
    rig.environ["PATH"] = str(program.parent)
    rig.again()
    token = rig.start("true")
    await until(lambda: rig.notes)
    assert rig.notes == ["sbatch cannot be run (No such file or directory): 1 waits, tried again in 0.05 s"]
    away.rename(program)
    await rig.told(Submitted, token)
    assert (rig.told_of(token), len(rig.slurm.calls("sbatch"))) == (["Submitted"], 1)


@on_paper
async def test_a_submission_in_doubt_is_given_up_once_it_cannot_be_under_way_any_more_and_never_runs(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    await rig.later(190)
    await rig.looks()
    assert rig.told_of(token) == []
    await rig.later(20)
    await rig.never_ran(token)
    assert (rig.said(token, "claim"), len(rig.slurm.calls("sbatch"))) == ("void", 1)


@on_paper
async def test_a_doubt_lasts_twice_as_long_as_slurms_messages_may_take(rig: PaperRig):
    (rig.slurm.folder / "config").write_text("MessageTimeout          = 60 sec\n")
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    await rig.later(110)
    await rig.looks()
    assert rig.told_of(token) == []
    await rig.later(12)
    await rig.never_ran(token)


@on_paper
async def test_a_submission_in_doubt_that_is_in_the_queue_has_been_taken(rig: PaperRig):
    rig.slurm.sbatch("mute=1")
    token = rig.start("true")
    assert (await rig.told(Submitted, token)).job == "101"
    await rig.later(1000)
    await rig.looks()
    assert rig.said(token, "claim") == ""


@on_paper
async def test_a_submission_in_doubt_is_not_given_up_while_the_queue_cannot_be_seen(rig: PaperRig):
    rig.slurm.silence()
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    await rig.later(10000)
    await rig.looks()
    assert (rig.told_of(token), rig.said(token, "claim")) == ([], "")


@on_paper
async def test_a_submission_in_doubt_whose_claim_a_job_has_is_that_job(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.claim(token, "55")
    await rig.later(210)
    assert (await rig.told(Submitted, token)).job == "55"


@on_paper
async def test_a_submission_in_doubt_whose_claim_a_full_disk_left_empty_never_runs(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.claim(token, "")
    await rig.gone_in_time(token)
    rig.beat(token)
    rig.launcher.forget(token)
    await until(lambda: not (rig.control / f"{token}.alive").exists())
    assert (rig.control / f"{token}.claim").exists()


@on_paper
async def test_a_job_that_somebody_cancelled_while_its_sbatch_hung_was_cancelled(rig: PaperRig):
    await rig.running()  # while there is one the queue is looked at
    hangs = "until [ -e $here/go ]; do sleep 0.02; done; echo Socket timed out on send/recv operation >&2; exit 1"
    rig.slurm.sbatch(hangs)
    token = rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    rig.slurm.row("70", "CANCELLED", text=f"gpudeck {token}")
    await rig.looks()
    (rig.slurm.folder / "go").touch()
    assert (await rig.over_in_time(token)).cause == "cancelled"


@on_paper
async def test_a_refused_job_that_the_queue_shows_says_nothing_of_a_later_submission_in_doubt(rig: PaperRig):
    await rig.running()  # while there is one the queue is looked at
    held = "until [ -e $here/go ]; do sleep 0.02; done; echo Resource temporarily unavailable >&2; exit 1"
    rig.slurm.sbatch(f"[ $did != 2 ] || {{ {held}; }}; echo Socket timed out on send/recv operation >&2; exit 1")
    token = rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    rig.slurm.row("50", "FAILED", text=f"gpudeck {token}")
    await rig.looks()
    (rig.slurm.folder / "go").touch()
    await until(lambda: len(rig.slurm.calls("sbatch")) == 3)
    await rig.gone_in_time(token)
    await rig.never_ran(token)


@on_paper
async def test_a_claim_that_says_no_job_ran_nothing_once_no_heart_has_beaten_for_long(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.claim(token, "")
    await rig.later(210)
    await rig.later(800)
    await rig.looks()
    assert rig.told_of(token) == []
    await rig.later(110)
    await rig.never_ran(token)


@on_paper
async def test_four_sbatch_run_at_once_at_most(rig: PaperRig):
    first = "[ $did != 1 ] || { sleep 0.4; wc -l <$here/sbatch.calls >$here/then; touch $here/go; }"
    rig.slurm.sbatch(f"{first}; until [ -e $here/go ]; do sleep 0.02; done")
    for token in [rig.start("true") for _ in range(6)]:
        await rig.told(Submitted, token)
    assert (rig.slurm.folder / "then").read_text().strip() == "4"


@on_paper
async def test_those_that_may_share_an_array_go_out_as_one_whose_map_is_written_before(rig: PaperRig):
    rig.slurm.sbatch(f"cat {rig.control}/*.map >$here/map")
    first, second = [rig.start("true", options={"array": True}) for _ in range(2)]
    assert [(await rig.told(Submitted, token)).job for token in (first, second)] == ["101_0", "101_1"]
    assert (len(rig.slurm.calls("sbatch")), (rig.slurm.folder / "map").read_text()) == (
        1, f"0 {first}\n1 {second}\n",
    )  # fmt: skip


@on_paper
async def test_those_of_an_array_that_ask_for_other_things_go_out_apart(rig: PaperRig):
    tokens = [rig.start("true", options={"array": True}, cpus=number) for number in (1, 2)]
    assert {(await rig.told(Submitted, token)).job for token in tokens} == {"101", "102"}


@on_paper
async def test_an_array_whose_answer_was_lost_is_found_element_by_element(rig: PaperRig):
    rig.slurm.sbatch("mute=1")
    tokens = [rig.start("true", options={"array": True}) for _ in range(2)]
    assert [(await rig.told(Submitted, token)).job for token in tokens] == ["101_0", "101_1"]


@on_paper
async def test_a_script_that_cannot_be_written_is_no_attempt(rig: PaperRig):
    order = rig.order("true", script="/proc/none/attempt-1.sh")
    rig.launcher.start(order)
    refused = await rig.told(SpawnRefused, order.token)
    assert ("its script cannot be written" in refused.why, rig.slurm.calls("sbatch")) == (True, [])


@on_paper
async def test_one_stopped_while_sbatch_runs_never_runs_and_its_job_leaves_the_queue(rig: PaperRig):
    rig.slurm.sbatch("until [ -e $here/go ]; do sleep 0.02; done")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.stop(token)
    await rig.never_ran(token)
    rig.beat(token)
    rig.launcher.forget(token)
    await until(lambda: not (rig.control / f"{token}.alive").exists())
    assert rig.said(token, "claim") == "void"
    (rig.slurm.folder / "go").touch()
    await until(lambda: rig.slurm.calls("scancel") == ["101"])
    await rig.later(1000)
    await until(lambda: not rig.said(token, "claim"))


@on_paper
async def test_one_stopped_in_doubt_leaves_the_queue_when_it_turns_up_in_it(rig: PaperRig):
    await rig.submitted()  # while there is one the queue is looked at
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token, other = rig.start("true"), rig.order("true").token
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    await rig.looks()
    rig.stop(token)
    await rig.never_ran(token)
    rig.slurm.row("70", "PENDING", text=f"gpudeck {token}")
    rig.slurm.row("71", "PENDING", text=f"gpudeck {other}")
    await until(lambda: rig.slurm.calls("scancel"))
    await rig.looks()
    assert rig.slurm.calls("scancel") == ["70"]


@on_paper
async def test_one_stopped_in_doubt_leaves_the_queue_though_no_other_is_left(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.notes)
    rig.stop(token)
    await rig.never_ran(token)
    await rig.looks(10)
    rig.slurm.row("70", "PENDING", text=f"gpudeck {token}")
    await until(lambda: rig.slurm.calls("scancel") == ["70"])


@on_paper
async def test_the_queue_is_not_looked_at_for_ever_for_jobs_that_never_came(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: rig.notes)
    rig.stop(token)
    await rig.never_ran(token)
    await rig.later(650)
    await until(lambda: not rig.launcher._due)  # pyright: ignore[reportPrivateUsage]


@on_paper
async def test_one_stopped_before_its_turn_is_not_submitted(rig: PaperRig):
    rig.slurm.sbatch("until [ -e $here/go ]; do sleep 0.02; done")
    others = [rig.start("true") for _ in range(4)]
    last = rig.start("true")
    rig.stop(last)
    await rig.never_ran(last)
    (rig.slurm.folder / "go").touch()
    for token in others:
        await rig.told(Submitted, token)
    await rig.looks()
    assert (len(rig.slurm.calls("sbatch")), rig.said(last, "claim")) == (4, "")


@on_paper
async def test_while_slurm_takes_no_job_no_other_is_tried(rig: PaperRig):
    rig.limits = replace(rig.limits, back_off_s=1000.0, longest_back_off_s=1000.0)
    rig.again()
    rig.slurm.refuse("QOSMaxSubmitJobPerUserLimit")
    rig.start("true")
    await until(lambda: rig.notes)
    rig.start("true")
    await rig.looks()
    assert len(rig.slurm.calls("sbatch")) == 1


@on_paper
async def test_a_job_that_turns_up_after_it_was_given_up_leaves_the_queue(rig: PaperRig):
    await rig.running()  # while there is one the queue is looked at
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    await rig.later(210)
    await rig.never_ran(token)
    rig.slurm.row("70", "PENDING", text=f"gpudeck {token}")
    await until(lambda: rig.slurm.calls("scancel") == ["70"])


@on_paper
async def test_a_claim_that_cannot_be_made_decides_nothing(rig: PaperRig):
    rig.slurm.refuse("Socket timed out on send/recv operation")
    token = rig.start("true")
    claim = rig.control / f"{token}.claim"
    claim.mkdir(parents=True)  # neither made nor read
    await until(lambda: rig.slurm.calls("sbatch"))
    await rig.later(210)
    await rig.later(2000)
    await rig.looks()
    assert rig.told_of(token) == []
    claim.rmdir()
    await rig.never_ran(token)


@on_paper
async def test_one_that_is_being_submitted_has_not_vanished(rig: PaperRig):
    await rig.running()  # while there is one the queue is looked at
    rig.slurm.sbatch("until [ -e $here/go ]; do sleep 0.02; done")
    token = rig.start("true")
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    for _ in range(4):
        await rig.later(1000)
        await rig.looks(5)
    assert (rig.told_of(token), rig.said(token, "claim")) == ([], "")
    (rig.slurm.folder / "go").touch()
    await rig.told(Submitted, token)


@pytest.mark.parametrize("words", ["Resource temporarily unavailable", "Socket timed out on send/recv operation"])
def test_one_stopped_while_sbatch_runs_stays_so_whatever_sbatch_says(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        await rig.running()  # while there is one the queue is looked at
        rig.slurm.sbatch(f"until [ -e $here/go ]; do sleep 0.02; done; echo {words} >&2; exit 1")
        token = rig.start("true")
        await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
        rig.stop(token)
        await rig.never_ran(token)
        (rig.slurm.folder / "go").touch()
        await until(lambda: rig.notes)
        await rig.later(210)
        await rig.later(210)
        await rig.looks()
        assert (rig.told_of(token), len(rig.slurm.calls("sbatch"))) == (["TreeGone"], 2)

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_elements_stopped_in_doubt_leave_the_queue_when_they_turn_up_in_it(rig: PaperRig):
    await rig.running()  # while there is one the queue is looked at
    rig.slurm.silence()
    rig.slurm.sbatch("mute=1")
    tokens = [rig.start("true", options={"array": True}) for _ in range(2)]
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    rig.stop(tokens[1])
    await rig.never_ran(tokens[1])
    rig.slurm.silence(silent=False)
    await until(lambda: rig.slurm.calls("scancel") == ["102_1"])
    assert (await rig.told(Submitted, tokens[0])).job == "102_0"


@on_paper
async def test_a_job_that_begins_before_sbatch_has_answered_is_known_by_what_it_says(rig: PaperRig):
    rig.slurm.sbatch("until [ -e $here/go ]; do sleep 0.02; done")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.claim(token, "55")
    rig.write(token, "began", "job=55\nnodes=node1\nwall=\n")
    assert [(await rig.told(Submitted, token)).job, (await rig.runs(token)).job] == ["55", "55"]
    (rig.slurm.folder / "go").touch()


@on_paper
async def test_what_slurm_does_not_take_for_now_says_why_until_it_is_taken(rig: PaperRig):
    refusal = "Job violates {QOS} policy (MaxSubmitJobsPerUser)"
    rig.slurm.refuse(f"Batch job submission failed: {refusal}", times=1)
    token, _ = await rig.submitted()

    def whys() -> list[str]:
        return [item.why for item in rig.inputs if isinstance(item, Pending) and item.token == token]

    await until(lambda: len(whys()) > 1)
    assert [refusal in why for why in whys()] == [True, *[False] * (len(whys()) - 1)]


@on_paper
async def test_a_job_that_was_over_before_sbatch_answered_is_no_job_of_an_attempt_that_was_given_up(rig: PaperRig):
    rig.slurm.sbatch("until [ -e $here/go ]; do sleep 0.02; done")
    token = rig.start("true")
    await until(lambda: rig.slurm.calls("sbatch"))
    rig.claim(token, "101")
    rig.write(token, "began", "job=101\nnodes=node1\nwall=\n")
    rig.end_with(token, 0)
    await rig.over_in_time(token)
    (rig.slurm.folder / "go").touch()
    await until((rig.slurm.folder / "queue" / "101").exists)
    await rig.submitted()
    await rig.looks(5)
    assert (rig.said(token, "ended") != "", rig.slurm.calls("scancel")) == (True, [])


@on_paper
async def test_a_job_that_sbatch_refused_and_the_queue_shows_is_not_the_one_that_it_took_then(rig: PaperRig):
    await rig.submitted()  # while there is one the queue is looked at
    order = rig.order("true", exclude=("node1",))
    refuse = "echo 'sbatch: error: Requested node configuration is not available' >&2; exit 1"
    rig.slurm.sbatch(f"[ $did != 2 ] || {{ until [ -e $here/go ]; do sleep 0.02; done; {refuse}; }}")
    rig.launcher.start(order)
    await until(lambda: len(rig.slurm.calls("sbatch")) == 2)
    rig.slurm.row("50", "FAILED", reason="BadConstraints", text=f"gpudeck {order.token}")
    await rig.looks()
    (rig.slurm.folder / "go").touch()
    assert (await rig.told(Submitted, order.token)).job != "50"
    await rig.looks(5)
    assert (rig.over(order.token), rig.said(order.token, "claim"), len(rig.notes)) == (False, "", 1)
