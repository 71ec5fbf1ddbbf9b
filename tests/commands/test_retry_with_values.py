"""`gpudeck retry SEL --set K=V`: a task runs again with other values than the file's."""

from __future__ import annotations

import asyncio

import pytest

from gpudeck.engine.errors import UsageError
from tests.rigs.desk import Desk, Ends, at_desk

SWEEP = """
    [deck]
    gpus = "sim:1"
    [vars]
    lr = 0.1
    [[task]]
    name = "t-{bs}"
    command = ["train", "{bs}", "{lr}"]
    metrics.loss = { regex = 'loss=([0-9]+)' }
    retries = 1
    backoff = "0s"
    matrix.bs = [32, 64]
    [[task]]
    name = "after"
    command = ["gather"]
    needs = ["t-*"]
"""
ENDS = {"t-32": 0, "t-64": 3, "after": 0}


def argv(desk: Desk, name: str = "t-64") -> list[str]:
    return list(desk.order(name).argv[-3:])


@at_desk(SWEEP, ENDS)
async def test_the_old_and_the_new_command_are_told_and_the_new_one_runs(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.ending["t-64"] = Ends(0)
    done = await desk.command("retry", "t-64", "--set", "bs=48", "--set", "lr=0.2")
    assert done.out.splitlines()[:2] == ["t-64: train 64 0.1", " now: train 48 0.2"]
    await desk.until_state("after", "succeeded")
    assert argv(desk) == ["train", "48", "0.2"]
    assert argv(desk, "t-32") == ["train", "32", "0.1"]
    assert "retried   with bs=48 lr=0.2 in the place of the file's" in (await desk.command("show", "t-64")).out
    assert "with bs=48 lr=0.2" in (await desk.command("ls", "t-64")).out


@at_desk(SWEEP, ENDS)
async def test_show_tells_programs_the_variables_that_a_retry_may_change(desk: Desk) -> None:
    assert await desk.run() == 1
    assert (await desk.told("show", "t-64"))["vars"] == {"lr": "0.1"}
    await desk.command("retry", "t-64", "--set", "lr=0.2")
    assert (await desk.told("show", "t-64"))["vars"] == {}


@at_desk(SWEEP, ENDS)
async def test_programs_are_told_both_commands(desk: Desk) -> None:
    assert await desk.run() == 1
    told = await desk.told("retry", "t-64", "--set", "bs=48")
    (done,) = told["done"]
    assert (done["command_before"], done["command"]) == (["train", "64", "0.1"], ["train", "48", "0.1"])


@at_desk(SWEEP, ENDS)
async def test_other_variables_of_the_environment_are_told_beside_the_commands(desk: Desk) -> None:
    assert await desk.run() == 1
    done = await desk.command("retry", "t-64", "--env", "X=two words", "--env", "A_TOKEN=abc")
    assert done.out.splitlines()[:2] == ["t-64: train 64 0.1", " now: X='two words' A_TOKEN='***' train 64 0.1"]
    assert desk.order("t-64").env["A_TOKEN"] == "abc"
    await desk.until_state("t-64", "failed")
    done = await desk.command("retry", "t-64", "--env", "X=1", "--set", "bs=48")
    assert done.out.splitlines()[:2] == ["t-64: train 64 0.1", " now: X=1 train 48 0.1"]
    await desk.until_state("t-64", "failed")
    (told,) = (await desk.told("retry", "t-64", "--env", "X=2"))["done"]
    assert (told["command"], told["env"]) == ("train 48 0.1", {"X": "2"})


RESUMING = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "t"
    command = ["train"]
    resume_command = ["train", "--resume"]
"""


@at_desk(RESUMING, {"t": 3})
async def test_what_goes_on_from_a_checkpoint_is_told_with_the_command_that_will_run(desk: Desk) -> None:
    assert await desk.run() == 1
    assert "goes on   with train --resume" in (await desk.command("show", "t")).out
    done = await desk.command("retry", "t", "--env", "X=1")
    assert done.out.splitlines()[:2] == ["t: train", "now: X=1 train --resume"]
    assert list(desk.order("t").argv) == ["train", "--resume"]
    await desk.until_state("t", "failed")
    done = await desk.command("retry", "t", "--env", "X=1", "--fresh")
    assert done.out.splitlines()[:2] == ["t: train --resume", "now: X=1 train"]
    assert list(desk.order("t").argv) == ["train"]


@at_desk(SWEEP, ENDS)
async def test_variables_of_the_environment_stay_told_with_the_attempts_that_had_them(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.ending["t-64"] = Ends(0, out="loss=7\n")
    await desk.command("retry", "t-64", "--env", "X=1", "--set", "bs=48")
    await desk.until_state("t-64", "succeeded")
    await desk.leave()
    retried = "retried   with bs=48 in the place of the file's, with X=1 in its environment"
    assert retried in (await desk.command("show", "t-64")).out
    assert "by `gpudeck retry`: t-64 (bs=48 X=1)" in (await desk.command("table")).err
    await desk.command("report")
    assert "with bs=48 X=1" in desk.text("report.html")
    desk.ending["t-64"] = Ends(3)
    await desk.command("retry", "t-64", "--set", "lr=0.3")
    await desk.until_state("t-64", "failed")
    await desk.leave()
    told = [line for line in (await desk.command("show", "t-64")).out.splitlines() if line.startswith("  with ")]
    assert told == ["  with bs=48 lr=0.3", "  with bs=48 lr=0.3", "  with bs=48 X=1"]


@at_desk(SWEEP, ENDS)
async def test_retries_the_next_engine_and_the_next_run_have_the_values(desk: Desk) -> None:
    assert await desk.run() == 1
    await desk.command("retry", "t-64", "--set", "bs=48")
    await desk.until_state("t-64", "failed")
    assert desk.started.count("t-64") == 4
    assert argv(desk) == ["train", "48", "0.1"]
    await desk.leave()
    await desk.command("retry", "t-64")
    await desk.until(lambda: desk.started.count("t-64") == 6)
    await desk.until_state("t-64", "failed")
    await desk.leave()
    assert await desk.run() == 1
    assert desk.started.count("t-64") == 8
    assert argv(desk) == ["train", "48", "0.1"]


@at_desk(SWEEP, ENDS)
async def test_the_value_of_the_file_takes_that_of_a_retry_away(desk: Desk) -> None:
    assert await desk.run() == 1
    await desk.command("retry", "t-64", "--set", "bs=48", "--set", "lr=0.2")
    await desk.until(lambda: desk.started.count("t-64") == 4)
    await desk.until_state("t-64", "failed")
    await desk.command("retry", "t-64", "--set", "bs=64")
    await desk.until(lambda: desk.started.count("t-64") == 6)
    assert argv(desk) == ["train", "64", "0.2"]
    await desk.until_state("t-64", "failed")
    assert "has changed" not in (await desk.command("status")).out


@at_desk(SWEEP, ENDS)
async def test_a_result_of_other_values_counts_and_is_told_as_one(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.ending["t-64"] = Ends(0, out="loss=7\n")
    await desk.command("retry", "t-64", "--set", "bs=48", "--set", "lr=0.2")
    await desk.until_state("after", "succeeded")
    await desk.leave()
    started = len(desk.started)
    await desk.run()
    assert (len(desk.started), (await desk.row("t-64"))["changed"]) == (started, False)
    assert "| t-64 | 48  | 0.2 |    7 |" in (await desk.command("table", "t-64")).out
    assert "| t-32 | 32  | 0.1 |" in (await desk.command("table")).out
    assert "with bs=48 lr=0.2" in (await desk.command("show", "t-64")).out
    assert "t-64 (bs=48 lr=0.2)" in (await desk.command("start")).err


@at_desk(SWEEP, ENDS)
async def test_table_does_not_give_a_result_of_before_an_edit_the_values_of_after(desk: Desk) -> None:
    desk.ending["t-32"] = Ends(0, out="loss=5\n")
    assert await desk.run() == 1
    desk.ending["t-64"] = Ends(0, out="loss=7\n")
    await desk.command("retry", "t-64", "--set", "lr=0.2")
    await desk.until_state("after", "succeeded")
    await desk.leave()
    desk.write(SWEEP.replace("lr = 0.1", "lr = 0.9"))
    assert (await desk.command("accept", "t-32")).code == 0
    told = await desk.command("table", "t-*")
    assert told.out.splitlines()[2:] == ["| t-32 | 32  | -   |    5 |", "| t-64 | 64  | 0.2 |    7 |"]
    assert "ran another command than the file has, and accepted: t-32" in told.err


PAIRS = """
    [deck]
    gpus = "sim:1"
    [vars]
    bs = 64
    [[task]]
    name = "{m}-{seed}"
    command = ["train", "{m}", "{seed}", "{bs}"]
    metrics.acc = { regex = 'acc=([0-9]+)', best = "max" }
    matrix = { m = ["a", "b"], seed = [1, 2, 3] }
"""


@at_desk(PAIRS, {f"{m}-{seed}": Ends(0, out=f"acc={seed}\n") for m in "ab" for seed in (1, 2, 3)})
async def test_compare_does_not_mix_what_ran_with_another_value(desk: Desk) -> None:
    assert await desk.run() == 0
    await desk.command("retry", "a-3", "--set", "bs=32")
    await desk.until(lambda: desk.started.count("a-3") == 2)
    await desk.leave()
    told = await desk.command("compare", "m=a", "m=b", "--over", "seed")
    assert [line.split()[:3] for line in told.out.splitlines()[1:]] == [["64", "acc", "1.5"]]
    assert "without a counterpart: a-3" in told.err


@at_desk(PAIRS, {f"{m}-{seed}": 0 for m in "ab" for seed in (1, 2, 3)})
async def test_a_selector_finds_what_has_another_value_of_a_variable(desk: Desk) -> None:
    assert await desk.run() == 0
    await desk.command("retry", "a-3", "--set", "bs=32")
    assert list(await desk.rows("bs=32")) == ["a-3"]


@at_desk(SWEEP, ENDS)
async def test_a_retry_says_which_variables_of_the_one_before_it_leaves_out(desk: Desk) -> None:
    assert await desk.run() == 1
    await desk.command("retry", "t-64", "--env", "X=1", "--env", "Y=2")
    await desk.until_state("t-64", "failed")
    assert "without X, which an earlier retry had set" in (await desk.command("retry", "t-64", "--env", "Y=3")).err


@at_desk(SWEEP, ENDS)
async def test_a_result_is_told_to_be_of_an_earlier_success_where_a_later_attempt_failed(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.ending["t-64"] = Ends(0, out="loss=7\n")
    await desk.command("retry", "t-64", "--set", "lr=0.2")
    await desk.until_state("after", "succeeded")
    desk.ending["t-64"] = Ends(3)
    await desk.command("retry", "t-64", "--set", "lr=0.1")
    await desk.until_state("t-64", "failed")
    told = (await desk.command("table", "t-*")).err
    assert "of an earlier success, not of the last attempt: t-64" in told
    assert "accepted" not in told


@at_desk(SWEEP, ENDS)
async def test_what_would_do_the_work_of_another_task_or_write_its_outputs_is_refused(desk: Desk) -> None:
    assert await desk.run() == 1
    refused = await desk.command("retry", "-y", "t-64", "--set", "bs=32")
    assert (refused.code, "t-64: with these values it would do the same as t-32" in refused.err) == (2, True)
    for same in ("bs=32", "bs=32.0", "bs=3.2e1"):
        refused = await desk.command("retry", "-y", "t-64", "--set", same)
        assert (refused.code, "t-64: with these values it would" in refused.err) == (2, True)
    assert desk.started.count("t-64") == 2


@at_desk(SWEEP, ENDS)
async def test_a_retry_that_is_taken_back_leaves_the_values_of_before(desk: Desk) -> None:
    assert await desk.run() == 1
    del desk.ending["t-32"]
    await desk.start()
    await desk.request("retry", tasks=["t-32"])
    await desk.until_state("t-32", "running")  # the only slot
    await desk.request("retry", tasks=["t-64"], set={"lr": "0.3"})
    await desk.request("cancel", tasks=["t-64"])
    seen = await desk.request("retry", tasks=["t-64"], set={"bs": "40"}, dry_run=True)
    assert seen["given"]["t-64"]["after"] == ["train", "40", "0.3"]
    done = await desk.request("retry", tasks=["t-64"], set={"bs": "41"})
    assert "with bs=41 lr=0.3" in (await desk.command("show", "t-64")).out
    assert (await desk.request("undo", undo=done["undo"]))["tasks"] == ["t-64"]
    assert "with lr=0.3 in" in (await desk.command("show", "t-64")).out


@at_desk(SWEEP, ENDS)
async def test_the_next_engine_takes_a_retry_back_with_its_values(desk: Desk) -> None:
    assert await desk.run() == 1
    await desk.start()
    await desk.request("pause")
    await desk.request("retry", tasks=["t-64"], set={"lr": "0.3"})
    done = await desk.request("retry", tasks=["t-32"], set={"lr": "0.4"})
    await desk.leave()
    await desk.start()
    assert (await desk.request("undo", undo=done["undo"]))["tasks"] == ["t-32"]
    assert "in the place" not in (await desk.command("show", "t-32")).out
    assert "with lr=0.3 in the place" in (await desk.command("show", "t-64")).out


@at_desk(SWEEP, ENDS)
async def test_of_two_retries_at_once_the_one_that_is_refused_gives_no_values(desk: Desk) -> None:
    assert await desk.run() == 1
    del desk.ending["t-64"]
    await desk.start()
    asked = [desk.request("retry", tasks=["t-64"], set={"bs": bs}) for bs in ("40", "41")]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(answer, UsageError) for answer in answers].count(True) == 1
    await desk.until_state("t-64", "running")
    bs = argv(desk)[1]
    shown = (await desk.command("show", "t-64")).out
    assert f"with bs={bs} in the place" in shown
    assert f"command   train {bs} 0.1" in shown


@at_desk(SWEEP, ENDS)
async def test_an_edit_is_applied_beside_the_values_of_a_retry(desk: Desk) -> None:
    assert await desk.run() == 1
    await desk.command("retry", "t-64", "--set", "bs=48")
    await desk.until_state("t-64", "failed")
    desk.write(SWEEP.replace('"gather"', '"collect"').replace('"{lr}"]', '"{lr}", "--fast"]'))
    assert (await desk.command("apply", "-y")).code == 0
    await desk.until(lambda: desk.order("t-64").argv[-1] == "--fast")
    assert list(desk.order("t-64").argv[-4:]) == ["train", "48", "0.1", "--fast"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("t-64", "--set", "batch=3"),
            "t-64: the retry changes batch, which is in neither matrix nor [vars]: there are bs, lr",
        ),
        (
            ("t-64", "--set", "X=1"),
            "t-64: the retry changes X, which is in neither matrix nor [vars]: "
            "`--env X=…` gives a variable of the environment",
        ),
        (("t-*", "--set", "lr"), "--set wants K=V, got 'lr'"),
        (
            ("t-64", "--set", "bs=48", "lr=0.2"),
            "lr=0.2: no task of this deck matches; its tasks have values of bs; "
            "each value takes a --set of its own: `--set bs=48 --set lr=0.2`",
        ),
        (
            ("t-64", "lr=0.2"),
            "lr=0.2: no task of this deck matches; its tasks have values of bs; `--set lr=0.2` gives another value",
        ),
        (("bs=9",), "bs=9: no task of this deck matches; bs is 32, 64; `--set bs=9` gives another value"),
        (("3",), "3: no task of this deck matches; tasks go by their names: `gpudeck ls`"),
        (("t-64", "--set", "task=x"), "t-64: the retry changes task: {task} means something already"),
    ],
)
@at_desk(SWEEP, ENDS)
async def test_what_means_nothing_is_refused_and_nothing_runs(desk: Desk, words: tuple[str, ...], told: str) -> None:
    assert await desk.run() == 1
    before = len(desk.started)
    refused = await desk.command("retry", "-y", *words)
    assert (refused.code, refused.err.splitlines()[-1]) == (2, f"gpudeck: {told}")
    assert len(desk.started) == before
    assert "retry" not in (await desk.command("status")).err


@at_desk(SWEEP, ENDS)
async def test_the_old_and_the_new_command_of_an_edited_task_are_told(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(SWEEP.replace('"{lr}"]', '"{lr}", "--fast"]'))
    done = await desk.command("retry", "t-64")
    assert done.out.splitlines()[:2] == ["t-64: train 64 0.1", " now: train 64 0.1 --fast"]


@at_desk(SWEEP, ENDS)
async def test_programs_are_told_both_commands_of_an_edited_task(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(SWEEP.replace('"{lr}"]', '"{lr}", "--fast"]'))
    (done,) = (await desk.told("retry", "t-64"))["done"]
    assert (done["command_before"], done["command"]) == ("train 64 0.1", "train 64 0.1 --fast")
