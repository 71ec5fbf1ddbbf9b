"""What commands call things."""

from __future__ import annotations

import os
import time

from tests.rigs.desk import Desk, at_desk

LATER = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "a"
    command = "exit 3"
    retries = 1
    backoff = "500s"
    [[task]]
    name = "b"
    command = "true"
    gpus = 0
    needs = ["a"]
"""
MIXED = """
    [deck]
    gpus = "sim:3"
    cpu_slots = 8
    [[task]]
    name = "cpu"
    command = "true"
    gpus = 0
    [[task]]
    name = "gang"
    command = "true"
    gpus = 2
"""
ONE = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "{name}"
    matrix.name = ["a", "b"]
    command = "true"
"""


@at_desk(LATER, {"a": 3})
async def test_a_task_in_backoff_waits_for_its_next_attempt(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "backoff")
    assert (await desk.command("explain", "a")).out.startswith("a waits for its next attempt:\n")
    assert "a waits for its next attempt: only what is changed" in (await desk.command("accept", "a")).err
    await desk.later(100)
    why = (await desk.told("status"))["waiting_why"][0]
    assert why.startswith("1 waits for its next attempt: a in ")


@at_desk(MIXED)
async def test_a_cpu_task_takes_no_slot_of_gpu_tasks_and_a_gang_several(desk: Desk) -> None:
    await desk.start()
    await desk.until(lambda: desk.in_state("running") == ["cpu", "gang"])
    head = await desk.told("status")
    assert (head["used_slots"], head["slots"]) == (2, 3)


@at_desk(ONE)
async def test_a_task_that_waits_for_another_attempt_has_neither_gpu_nor_time(desk: Desk) -> None:
    await desk.start()
    await desk.ends("a", 3)
    await desk.until_state("b", "running")
    assert (await desk.command("retry", "a")).code == 0
    lines = (await desk.command("ls", "a")).out.splitlines()
    cells = next(line for line in lines if line.startswith("a ")).split()
    assert cells[:5] == ["a", "queued", "-", "1", "-"]


@at_desk(LATER, {"a": 3})
async def test_a_cpu_task_that_was_cancelled_before_it_started_ran_nowhere(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "backoff")
    assert (await desk.command("cancel", "b")).code == 0
    assert (await desk.command("ls", "b")).out.splitlines()[1].split()[:3] == ["b", "cancelled", "-"]


@at_desk(ONE)
async def test_a_first_run_that_is_followed_does_not_go_on(desk: Desk) -> None:
    first = desk.begin("tasks.toml", "--plain", terminal=True)
    await first.until("run 1  2 tasks")
    later = desk.begin("attach")
    await later.until("run 1 goes on")
    assert "goes on" not in first.said


@at_desk(ONE)
async def test_old_records_of_starts_that_came_to_nothing_are_swept(desk: Desk) -> None:
    records = desk.folder / ".gpudeck/tasks/attempts"
    await desk.start()
    await desk.command("stop")
    for name, age_s in (("old", 7200.0), ("young", 60.0)):
        (records / name).write_text("")
        os.utime(records / name, (time.time() - age_s,) * 2)
    await desk.start()
    assert {"old", "young"} & set(os.listdir(records)) == {"young"}


@at_desk('[deck]\ngpus = "none"\n[[task]]\nname = "t"\ncommand = "true"\n', {"t": 0})
async def test_who_has_asked_for_the_cpu_is_not_told_that_there_is_no_gpu(desk: Desk) -> None:
    assert await desk.run() == 0
    assert "no NVIDIA GPU" not in desk.text("logs/deck.log")
