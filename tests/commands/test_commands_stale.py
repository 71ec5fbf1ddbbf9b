"""Results that build on results which are newer: who makes them again."""

from __future__ import annotations

from tests.rigs.desk import Desk, at_desk

SWEEP = """
    [deck]
    gpus = "none"
    {more}
    [[task]]
    name = "train-{{seed}}"
    matrix.seed = {seeds}
    command = "true train {{seed}}"
    [[task]]
    name = "report"
    command = "true report"
    needs = ["train-*"]
"""
ENDS = {"train-1": 0, "train-2": 0, "train-3": 0, "report": 0}


async def with_another_seed(desk: Desk, more: str = "") -> None:
    """A sweep that has run gets another seed; its engine is started as a screen starts it."""
    desk.write(SWEEP.format(more=more, seeds=[1, 2]))
    await desk.run()
    desk.started.clear()
    desk.write(SWEEP.format(more=more, seeds=[1, 2, 3]))


@at_desk("", ENDS)
async def test_a_report_waits_for_the_user_after_a_seed_was_added(desk: Desk) -> None:
    await with_another_seed(desk)
    await desk.start()
    await desk.until(lambda: desk.in_state("succeeded") == ["train-1", "train-2", "train-3", "report"])
    await desk.settle()
    assert desk.started == ["train-3"]
    assert (await desk.row("report"))["stale"]


@at_desk("", ENDS)
async def test_with_rerun_stale_a_report_is_made_again_after_a_seed_was_added(desk: Desk) -> None:
    await with_another_seed(desk, "rerun_stale = true")
    await desk.start()
    await desk.until(lambda: desk.started == ["train-3", "report"])
    await desk.until_state("report", "succeeded")
    assert not (await desk.row("report"))["stale"]


@at_desk("", ENDS)
async def test_with_rerun_stale_a_retried_training_makes_the_report_again(desk: Desk) -> None:
    desk.write(SWEEP.format(more="rerun_stale = true", seeds=[1, 2]))
    await desk.run()
    desk.started.clear()
    await desk.start()
    await desk.command("retry", "train-1")
    await desk.until(lambda: desk.started == ["train-1", "report"])


@at_desk("", ENDS)
async def test_plan_says_which_start_it_means_and_what_a_screen_leaves(desk: Desk) -> None:
    await with_another_seed(desk)
    told = (await desk.command("plan")).out
    assert "this is `gpudeck --headless`; with a screen report would wait for you" in told
    assert "rerun_stale = true" in told
    desk.write(SWEEP.format(more="rerun_stale = true", seeds=[1, 2, 3]))
    assert "wait for you" not in (await desk.command("plan")).out
