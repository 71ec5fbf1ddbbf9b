"""What commands say where `[budget]` lets nothing more start."""

from __future__ import annotations

from tests.rigs.desk import Desk, at_desk

USED = "the budget of 1 GPU hours is used up (gpu_hours)"
UNTIL = f"gpudeck: {USED}: nothing starts until the file gives more and `gpudeck apply` takes that up\n"
DECK = """
    [deck]
    gpus = "sim:1"
    [budget]
    gpu_hours = 1
    [[task]]
    name = "t-{i}"
    command = ["train", "{i}"]
    matrix.i = [1, 2]
"""


async def used_up(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("t-1", "running")
    await desk.later(3600)
    await desk.ends("t-1")
    assert desk.state("t-2") == "queued"


@at_desk(DECK)
async def test_a_retry_says_that_the_budget_keeps_the_task_waiting_and_what_ends_that(desk: Desk) -> None:
    await used_up(desk)
    done = await desk.command("retry", "t-1")
    assert (done.out, done.err) == ("retry: t-1 (attempt 2 is queued)\n", UNTIL)


@at_desk(DECK)
async def test_a_larger_budget_that_is_applied_holds_in_all_that_is_said_from_then_on(desk: Desk) -> None:
    await used_up(desk)
    assert (await desk.told("status"))["barred"] == USED
    desk.write(DECK.replace("gpu_hours = 1", "gpu_hours = 2"))
    assert (await desk.command("apply", "-y")).err == ""
    assert (await desk.told("status"))["barred"] == ""
    await desk.until_state("t-2", "running")


@at_desk(DECK)
async def test_of_an_edit_the_budget_is_told_that_it_gives_not_the_one_before(desk: Desk) -> None:
    await used_up(desk)
    desk.write(DECK.replace("gpu_hours = 1", "gpu_hours = 0.5"))
    assert (await desk.command("apply", "-y")).err == UNTIL.replace("of 1 GPU", "of 0.5 GPU")


@at_desk(DECK)
async def test_a_task_that_is_wanted_now_waits_for_the_budget_and_the_command_does_not(desk: Desk) -> None:
    await used_up(desk)
    done = await desk.command("add", "--now", "--name", "eval", "--", "true")
    assert f"gpudeck: eval is first in line, but {USED}\n" in done.err


@at_desk(DECK)
async def test_programs_are_told_which_rule_keeps_what_was_unpaused(desk: Desk) -> None:
    await used_up(desk)
    assert (await desk.told("unpause"))["barred"] == USED
    assert (await desk.told("start"))["barred"] == USED


@at_desk(DECK)
async def test_a_plan_tells_a_budget_that_it_would_use_up_from_one_that_is(desk: Desk) -> None:
    assert (await desk.command("plan")).out.splitlines()[-1] == f"by then {USED}"
    await used_up(desk)
    await desk.leave()
    assert (await desk.command("plan")).out.splitlines()[-1] == USED


@at_desk(DECK.replace("gpu_hours = 1", "gpu_hours = 2"))
async def test_a_plan_that_fits_a_budget_exactly_says_nothing_of_it(desk: Desk) -> None:
    assert "budget" not in (await desk.command("plan")).out
