"""How long a deck will still take, as commands tell it."""

from __future__ import annotations

from tests.rigs.desk import Desk, at_desk

TRAININGS = """
    [deck]
    gpus = "sim:4"
    [[task]]
    name = "train-{n}"
    matrix.n = [1, 2, 3]
    gpus = 3
    command = "true train {n}"
    [[task]]
    name = "report"
    command = "true"
    gpus = 0
    needs = ["train-*"]
"""


@at_desk(TRAININGS)
async def test_status_tells_how_long_the_deck_takes_at_least_and_what_nobody_has_measured(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("train-1", "running")
    assert "eta at" not in (await desk.command("status")).out
    await desk.later(3600)
    await desk.ends("train-1")
    await desk.until_state("train-2", "running")
    await desk.later(1800)
    told = (await desk.command("status")).out
    assert "eta at least 1h30m" in told
    assert ", 1 task not measured yet" in told
    head = await desk.told("status")
    assert (round(head["eta_s"] / 60), head["unmeasured"]) == (90, 1)
