"""Beginnings, ends and stops of jobs on paper, and what another engine finds of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, Spawned, Submitted
from tests.inside.slurm import boottime_s, in_words, jobfiles, launcher
from tests.slurm.launcher_rig import until
from tests.slurm.paper_rig import PaperRig, on_paper


@on_paper
async def test_a_beginning_tells_the_job_its_nodes_and_when(rig: PaperRig):
    token, number = await rig.submitted()
    rig.begin(token, number)
    began = await rig.runs(token)
    assert (began.job, began.nodes, began.at is not None) == (number, ("node1",), True)


@on_paper
async def test_an_end_whose_beginning_was_not_seen_tells_both_in_their_order(rig: PaperRig):
    token, number = await rig.submitted()
    rig.end_with(token, 0)
    rig.begin(token, number)
    end = await rig.end(token)
    assert (end.code, rig.told_of(token)) == (
        0, ["Submitted", "Spawned", "LeaderExited", "TreeGone"],
    )  # fmt: skip


@on_paper
async def test_an_end_of_which_nobody_saw_the_beginning_is_one_of_a_job_that_ran(rig: PaperRig):
    token, _ = await rig.submitted()
    rig.end_with(token, 1)
    await rig.end(token)
    assert rig.told_of(token) == ["Submitted", "Spawned", "LeaderExited", "TreeGone"]


@on_paper
async def test_a_job_that_took_its_claim_ran_though_it_was_killed_before_it_could_say_so(rig: PaperRig):
    token, number = await rig.submitted()
    rig.claim(token, number)
    rig.slurm.row(number, "CANCELLED", nodes="node1")
    await rig.over_in_time(token)
    assert (rig.told_of(token)[1], rig.of(Spawned, token)[0].nodes) == ("Spawned", ("node1",))


@on_paper
async def test_what_the_kernel_tells_of_the_folder_is_looked_at_without_waiting_for_the_next_look(rig: PaperRig):
    token, number = await rig.submitted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_LOOK_S", 1000.0)
        await rig.looks()
        rig.begin(token, number)
        await rig.runs(token)
        rig.end_with(token, 0)
        assert (await rig.end(token)).code == 0


@on_paper
async def test_an_end_that_the_kernel_tells_of_tells_the_beginning_first(rig: PaperRig):
    token, number = await rig.submitted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_LOOK_S", 1000.0)
        await rig.looks()
        rig.write_elsewhere(token, "began", f"job={number}\nnodes=node1\nwall=\n")
        rig.end_with(token, 0)
        await rig.end(token)
    assert "Spawned" in rig.told_of(token)


@pytest.mark.parametrize("ahead_s", [None, 500.0])
def test_a_node_without_a_time_or_with_one_to_come_began_just_now(
    ahead_s: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, number = await rig.submitted()
        rig.begin(token, number, wall=0.0 if ahead_s is None else time.time() + ahead_s)
        at = (await rig.runs(token)).at
        assert at is not None
        assert boottime_s() - at == pytest.approx(0.0, abs=30.0)

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_a_job_began_as_long_ago_as_its_node_says(rig: PaperRig):
    token, number = await rig.submitted()
    rig.begin(token, number, wall=time.time() - 500)
    at = (await rig.runs(token)).at
    assert at is not None
    assert boottime_s() - at == pytest.approx(500.0, abs=30.0)


@on_paper
async def test_what_the_kernel_does_not_tell_of_is_found_by_looking(rig: PaperRig):
    token, _ = await rig.running()
    await rig.looks(20)
    rig.write_elsewhere(token, "ended", "code=0\nwall=1\n")
    assert (await rig.end(token)).code == 0


@on_paper
async def test_a_job_that_somebody_else_ended_waits_for_slurms_word_on_it(rig: PaperRig):
    token, number = await rig.running()
    rig.end_with(token, 143, "TERM")
    await rig.looks()
    assert not rig.over(token)
    rig.slurm.row(number, "PREEMPTED", nodes="node1")
    end = await rig.end(token)
    assert (end.code, end.cause, end.detail) == (143, "preempted", "a more urgent job took its place on node1")


@on_paper
async def test_slurms_word_on_an_end_is_not_waited_for_for_ever(rig: PaperRig):
    token, _ = await rig.running()
    rig.end_with(token, 137)
    await rig.later(140)
    await rig.looks()
    assert not rig.over(token)
    await rig.later(20)
    end = await rig.end(token)
    assert (end.code, end.cause, end.detail) == (137, "", "")


@on_paper
async def test_slurms_word_completed_adds_nothing_to_an_end(rig: PaperRig):
    token, number = await rig.running()
    rig.end_with(token, 143)
    rig.slurm.row(number, "FAILED", nodes="node1")
    end = await rig.end(token)
    assert (end.code, end.cause, end.detail) == (143, "", "")


@on_paper
async def test_a_success_is_told_at_once_though_slurm_has_not_noticed(rig: PaperRig):
    token, _ = await rig.running()
    rig.slurm.silence()
    rig.end_with(token, 0)
    assert (await rig.end(token)).code == 0


@on_paper
async def test_an_end_by_our_own_stop_asks_slurm_nothing(rig: PaperRig):
    token, _ = await rig.running()
    rig.slurm.silence()
    rig.stop(token)
    rig.end_with(token, 143)
    assert (await rig.end(token)).code == 143


@on_paper
async def test_what_ended_for_slurms_limit_timed_out(rig: PaperRig):
    token, _ = await rig.running()
    rig.end_with(token, 0, "limit")
    end = await rig.end(token)
    assert (end.code, end.cause, end.detail) == (0, "timeout", in_words("TIMEOUT", "node1"))


@on_paper
async def test_what_was_stopped_before_slurms_limit_came_did_not_time_out(rig: PaperRig):
    token, _ = await rig.running()
    rig.stop(token)
    rig.end_with(token, 143, "limit")
    assert (await rig.end(token)).cause == ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("spawn-cwd", "its folder cannot be entered on node1: {folder}"),
        ("spawn-log", "its log cannot be written on node1: {log}"),
        ("setup", "a line of setup failed on node1: its log tells more"),
    ],
)
def test_what_could_not_be_started_says_why_and_where(
    said: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def body(rig: PaperRig) -> None:
        token, _ = await rig.running()
        rig.end_with(token, said)
        end = await rig.end(token)
        log = rig.folder / "logs" / token / "attempt-1.log"
        assert (end.code, end.spawn_error) == (125, words.format(folder=rig.folder, log=log))

    on_paper(body)(tmp_path, monkeypatch)


@on_paper
async def test_a_line_of_setup_that_failed_is_told_as_its_log_tells_it(rig: PaperRig):
    token, _ = await rig.running()
    err = rig.folder / "logs" / token / "attempt-1.err"
    why = "setup line 1 failed (exit code 127): module load cuda/12.4"
    err.write_text(f"bash: module: command not found\ngpudeck: {why}\n")
    rig.end_with(token, "setup")
    end = await rig.end(token)
    assert (end.code, end.spawn_error) == (125, why)


@on_paper
async def test_a_program_that_is_not_there_is_a_spawn_error(rig: PaperRig):
    token, _ = await rig.running()
    err = rig.folder / "logs" / token / "attempt-1.err"
    err.write_text("/usr/bin/env: 'trian': No such file or directory\n")
    rig.end_with(token, 127)
    end = await rig.end(token)
    assert (end.code, "trian" in end.spawn_error) == (127, True)


# -- stops ------------------------------------------------------------------------------------------------------------


@on_paper
async def test_what_runs_is_stopped_by_its_wrapper(rig: PaperRig):
    token, _ = await rig.running()
    rig.stop(token, scope="leader", grace_s=30)
    await until(lambda: rig.said(token, "stop"))
    signal, grace_s, scope = rig.said(token, "stop").split()
    assert (signal, float(grace_s) == pytest.approx(30, abs=5), scope) == ("TERM", True, "leader")
    await rig.looks()
    assert rig.slurm.calls("scancel") == []


@on_paper
async def test_a_second_stop_counts_only_where_it_is_sooner(rig: PaperRig):
    token, _ = await rig.running()
    rig.stop(token, grace_s=300)
    await until(lambda: rig.said(token, "stop"))
    rig.stop(token, grace_s=900)
    rig.stop(token, number=9, grace_s=100)
    await until(lambda: rig.said(token, "stop").startswith("KILL "))
    assert float(rig.said(token, "stop").split()[1]) <= 100
    rig.stop(token, grace_s=200)
    await rig.looks()
    assert rig.said(token, "stop").startswith("KILL ")


@on_paper
async def test_slurm_is_asked_where_a_wrapper_does_not_stop_it(rig: PaperRig):
    token, number = await rig.running()
    rig.stop(token, grace_s=0)
    await until(lambda: rig.slurm.calls("scancel") == [number])


@on_paper
async def test_slurm_is_asked_again_for_a_job_that_stays_in_the_queue(rig: PaperRig):
    rig.slurm.keep()
    token, number = await rig.running()
    rig.stop(token, grace_s=0)
    await until(lambda: rig.slurm.calls("scancel"))
    await rig.later(5)
    await rig.looks()
    assert rig.slurm.calls("scancel") == [number]
    await rig.later(6)
    await until(lambda: rig.slurm.calls("scancel") == [number, number])


@on_paper
async def test_slurm_is_not_asked_again_for_a_job_that_it_says_is_over(rig: PaperRig):
    rig.slurm.keep()
    token, number = await rig.running()
    await rig.running()
    rig.stop(token, grace_s=0)
    await until(lambda: rig.slurm.calls("scancel"))
    rig.slurm.row(number, "CANCELLED")
    await rig.later(11)
    await rig.later(11)
    await rig.looks()
    assert rig.slurm.calls("scancel") == [number]


@on_paper
async def test_a_job_that_waits_is_taken_off_the_queue_and_never_runs(rig: PaperRig):
    token, number = await rig.submitted()
    rig.stop(token)
    await rig.never_ran(token)
    assert rig.said(token, "claim") == "void"
    await until(lambda: rig.slurm.calls("scancel") == [number])


@on_paper
async def test_a_stop_that_the_folder_does_not_take_is_tried_again(rig: PaperRig):
    token, _ = await rig.submitted()
    claim = rig.control / f"{token}.claim"
    claim.mkdir()  # neither made nor read
    rig.stop(token)
    await rig.looks()
    assert not rig.over(token)
    claim.rmdir()
    await rig.never_ran(token)


@on_paper
async def test_a_claim_stays_until_its_job_has_left_the_queue(rig: PaperRig):
    rig.slurm.keep()
    token, number = await rig.submitted()
    await rig.submitted()
    rig.stop(token)
    await rig.never_ran(token)
    rig.beat(token)
    rig.launcher.forget(token)
    await until(lambda: not (rig.control / f"{token}.alive").exists())
    await rig.looks()
    assert rig.said(token, "claim") == "void"
    rig.slurm.row(number, "CANCELLED")
    await until(lambda: not rig.said(token, "claim"))


@on_paper
async def test_a_job_that_began_before_it_could_be_stopped_is_stopped_by_its_wrapper(rig: PaperRig):
    token, number = await rig.submitted()
    rig.claim(token, number)
    rig.stop(token)
    await until(lambda: rig.said(token, "stop").startswith("TERM "))
    assert not rig.over(token)


@on_paper
async def test_many_jobs_are_cancelled_by_few_calls(rig: PaperRig):
    pairs = [await rig.submitted() for _ in range(5)]
    folder, go = rig.slurm.folder, rig.slurm.folder / "go"
    path = folder / "bin" / "scancel"
    held = f"echo >>{folder}/scancels\nuntil [ -e {go} ]; do read -r -t 0.05 <> <(:); done\nprintf"
    path.write_text(path.read_text().replace("printf", held, 1))
    for token, _ in pairs:
        rig.stop(token)
    for token, _ in pairs:
        await rig.never_ran(token)
    go.touch()
    await until(lambda: len(rig.slurm.calls("scancel")) == 5)
    assert len((folder / "scancels").read_text().splitlines()) <= 2


@on_paper
async def test_an_engine_that_ends_leaves_no_job_of_a_stopped_attempt_in_the_queue(rig: PaperRig):
    token, number = await rig.submitted()
    rig.stop(token)
    await rig.never_ran(token)
    rig.launcher.close()
    await until(lambda: rig.slurm.calls("scancel") == [number])


@on_paper
async def test_what_has_not_begun_cannot_be_warned(rig: PaperRig):
    token, number = await rig.submitted()
    assert rig.launcher.warn(token, 10) == 0
    rig.begin(token, number)
    await rig.runs(token)
    assert rig.launcher.warn(token, 10) == 1
    await until(lambda: rig.said(token, "warn") == "USR1")


# -- another engine ---------------------------------------------------------------------------------------------------


@on_paper
async def test_an_end_that_nobody_saw_is_told_to_the_next_engine(rig: PaperRig):
    token, number = await rig.running()
    rig.launcher.close()
    rig.end_with(token, 4)
    rig.again()
    assert rig.launcher.recover([rig.known(token, number)]) == {token: "ended"}
    assert (await rig.end(token)).code == 4


@on_paper
async def test_the_next_engine_looks_at_once(rig: PaperRig):
    token, number = await rig.running()
    rig.launcher.close()
    rig.end_with(token, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_LOOK_S", 1000.0)
        rig.again()
        rig.launcher.recover([rig.known(token, number)])
        assert (await rig.end(token)).code == 4


@on_paper
async def test_a_void_attempt_never_ran_and_its_job_leaves_the_queue(rig: PaperRig):
    token, number = await rig.submitted()
    rig.again()
    assert jobfiles.void(str(rig.control), token) == jobfiles.VOID
    assert rig.launcher.recover([rig.known(token, number)]) == {token: "never ran"}
    await rig.never_ran(token)
    await until(lambda: rig.slurm.calls("scancel") == [number])


@on_paper
async def test_a_job_that_waits_is_taken_up_by_its_number(rig: PaperRig):
    token, number = await rig.submitted()
    rig.again()
    assert rig.launcher.recover([rig.known(token, number)]) == {token: "adopted"}
    await rig.told(Pending, token)
    assert rig.of(Submitted, token) == []


@on_paper
async def test_a_job_whose_number_was_not_kept_is_found_in_the_queue(rig: PaperRig):
    token, number = await rig.submitted()
    rig.again()
    assert rig.launcher.recover([rig.known(token)]) == {token: "adopted"}
    assert (await rig.told(Submitted, token)).job == number


@on_paper
async def test_a_job_whose_number_was_not_kept_is_known_by_its_claim(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.drop(number)
    rig.again()
    rig.launcher.recover([rig.known(token)])
    assert (await rig.runs(token)).job == number


@on_paper
async def test_an_element_whose_number_was_not_kept_is_found_by_the_map_of_its_array(rig: PaperRig):
    tokens = [rig.start("true", options={"array": True}) for _ in range(2)]
    for token in tokens:
        await rig.told(Submitted, token)
    rig.again()
    rig.launcher.recover([rig.known(token) for token in tokens])
    assert [(await rig.told(Submitted, token)).job for token in tokens] == ["101_0", "101_1"]


@on_paper
async def test_an_element_taken_up_by_its_number_is_not_anothers_that_gets_the_number_later(rig: PaperRig):
    tokens = [rig.start("true", options={"array": True}) for _ in range(2)]
    numbers = [(await rig.told(Submitted, token)).job for token in tokens]
    for path in rig.control.glob("*.map"):
        path.unlink()
    rig.again()
    rig.launcher.recover([rig.known(token, number) for token, number in zip(tokens, numbers, strict=True)])
    await rig.told(Pending, tokens[1])
    rig.slurm.row(numbers[1], "FAILED", text=f"gpudeck-array {'f' * 24}")
    await rig.looks()
    assert (rig.over(tokens[1]), rig.said(tokens[1], "claim")) == (False, "")


@on_paper
async def test_a_submission_of_which_nothing_is_found_never_runs(rig: PaperRig):
    token = rig.order("true").token
    assert rig.launcher.recover([rig.known(token)]) == {token: "adopted"}
    await rig.later(190)
    await rig.looks()
    assert rig.told_of(token) == []
    await rig.later(20)
    await rig.never_ran(token)
    assert rig.said(token, "claim") == "void"


@on_paper
async def test_what_the_queue_has_forgotten_is_not_given_up_at_the_first_look(rig: PaperRig):
    token, number = await rig.running()
    rig.slurm.drop(number)
    rig.again()
    rig.launcher.recover([rig.known(token, number)])
    await rig.runs(token)
    rig.beat(token)
    await rig.later(600)
    await rig.looks()
    assert not rig.over(token)


@on_paper
async def test_a_folder_that_does_not_answer_in_time_proves_nothing(rig: PaperRig):
    token, number = await rig.submitted()
    rig.again()
    os.mkfifo(rig.control / f"{token}.claim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "_LEFT_S", 0.05)
        assert rig.launcher.recover([rig.known(token, number)]) == {token: "adopted"}
