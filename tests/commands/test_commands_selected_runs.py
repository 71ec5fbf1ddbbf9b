"""Runs of tasks that `--only` chooses by how they stand, and what of the others remains."""

from __future__ import annotations

import pytest

from gpudeck.engine.errors import UsageError
from tests.rigs.desk import Desk, at_desk

CHAIN = """
    [deck]
    gpus = "none"
    [[task]]
    name = "a"
    command = "true a"
    [[task]]
    name = "b"
    command = "true b"
    needs = ["a"]
    [[task]]
    name = "c"
    command = "true c"
    [[task]]
    name = "bad"
    command = "true bad"
"""
ENDS = {"a": 1, "b": 0, "c": 0, "bad": 1}


@at_desk(CHAIN, ENDS)
async def test_only_blocked_tasks_run_where_status_shows_them_so(desk: Desk) -> None:
    await desk.run()
    assert (await desk.row("b"))["state"] == "blocked"
    desk.started.clear()
    await desk.run("--only", "state:blocked", "--with-needs")
    assert sorted(desk.started) == ["a"]
    assert (await desk.row("b"))["state"] == "blocked"


@at_desk(CHAIN, ENDS)
async def test_only_stale_tasks_run_where_status_shows_them_so(desk: Desk) -> None:
    desk.ending["a"] = type(desk.ending["a"])(0)
    await desk.run()
    await desk.start()
    await desk.command("retry", "a")
    await desk.until_state("a", "succeeded")
    await desk.leave()
    assert (await desk.row("b"))["stale"]
    desk.started.clear()
    await desk.run("--only", "state:stale")
    assert desk.started == ["b"]


@at_desk(CHAIN, ENDS)
async def test_tasks_that_an_earlier_run_left_out_are_still_failed_for_the_next_selection(desk: Desk) -> None:
    await desk.run()
    await desk.run("--only", "c")
    desk.started.clear()
    await desk.run("--only", "state:failed")
    assert sorted(desk.started) == ["a", "bad"]


@at_desk(CHAIN, ENDS)
async def test_a_retry_of_a_task_that_an_ended_run_left_out_runs_it_and_no_other(desk: Desk) -> None:
    await desk.run()
    await desk.run("--only", "c")
    desk.started.clear()
    done = await desk.command("retry", "bad")
    assert (done.code, "left out" in done.err) == (0, False)
    await desk.settle()
    assert desk.started == ["bad"]


@at_desk(CHAIN, ENDS)
async def test_a_deck_opens_after_a_run_of_failed_tasks_of_which_none_is_left(desk: Desk) -> None:
    await desk.run()
    desk.ending["a"] = desk.ending["bad"] = type(desk.ending["a"])(0)
    await desk.run("--only", "state:failed")
    desk.started.clear()
    for _ in range(2):  # the run that a retry begins chooses no others either
        done = await desk.command("retry", "-y", "c")
        assert (done.code, done.err.count("no task matches")) == (0, 0)
        await desk.settle()
        await desk.leave()
    assert desk.started == ["c", "c"]
    left_out = {name: row["left_out"] for name, row in (await desk.rows()).items()}
    assert left_out == {"a": False, "b": True, "c": False, "bad": False}


@at_desk(CHAIN, {"bad": 1})
async def test_a_retry_of_a_task_that_an_unfinished_run_leaves_out_says_when_it_can_be_had(desk: Desk) -> None:
    await desk.run("--only", "bad")
    await desk.command("start", "--only", "c")
    await desk.until_state("c", "running")
    done = await desk.command("retry", "bad")
    assert (done.code, "once it has ended, `gpudeck retry bad` runs it" in done.err) == (2, True)


_WITHOUT_BAD = CHAIN.replace('name = "bad"', 'name = "worse"')


@at_desk(CHAIN, ENDS)
async def test_a_deck_opens_whose_ended_run_was_of_a_task_that_has_left_the_file(desk: Desk) -> None:
    await desk.run("--only", "bad")
    desk.write(_WITHOUT_BAD)
    await desk.start()
    assert {name: row["left_out"] for name, row in (await desk.rows()).items()} == dict.fromkeys(
        ("a", "b", "c", "worse"), False
    )
    desk.write(_WITHOUT_BAD.replace('name = "c"', 'name = "d"'))
    assert (await desk.command("apply", "-y")).code == 0


@at_desk(CHAIN)
async def test_a_start_that_goes_on_with_a_selection_of_no_task_any_more_says_how_to_have_another(desk: Desk) -> None:
    await desk.start("--only", "bad", purpose="start")
    await desk.until_state("bad", "running")
    await desk.leave()
    desk.write(_WITHOUT_BAD)
    done = await desk.command("start")
    assert done.code == 2
    assert "--only bad: no task matches. The run that goes on was started with that: `gpudeck start --only" in done.err
    assert (await desk.command("start", "--only", "*")).code == 0


@at_desk(CHAIN, ENDS)
async def test_a_mistaken_selection_is_refused_also_after_a_run_has_ended(desk: Desk) -> None:
    await desk.run()
    with pytest.raises(UsageError, match="no task matches"):
        await desk.start("--only", "nothing-of-that-name")
