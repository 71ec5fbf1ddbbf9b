"""Whoever starts, applies, adds or looks is told why what waits does not start, and what runs already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until
from tests.rigs.desk import Desk, at_desk

HALTING = """
    [deck]
    gpus = "sim:1"
    halt = "soon,fail=1"
    [[task]]
    name = "a"
    command = "true a"
    [[task]]
    name = "b"
    command = "true b"
"""
PAIR = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "a"
    command = "read _ <gate"
    [[task]]
    name = "b"
    command = "true"
"""


async def halted(desk: Desk) -> None:
    assert await desk.run() == 1
    assert desk.started == ["a"]
    desk.ending["a"] = type(desk.ending["a"])(0)


@at_desk(HALTING, {"a": 1, "b": 0})
async def test_a_start_on_a_halted_run_names_the_halt_and_starts_nothing(desk: Desk) -> None:
    await halted(desk)
    told = await desk.command("start")
    assert "halted by a: what that has left waits; `gpudeck unpause` goes on with all of it" in told.err
    assert desk.started == ["a"]
    explained = await desk.command("explain", "b")
    assert "the run was halted by a and has ended: `gpudeck unpause` goes on with what waits" in explained.out


@at_desk(HALTING, {"a": 1, "b": 0, "c": 0})
async def test_an_edit_that_is_applied_on_a_halted_run_names_the_halt(desk: Desk) -> None:
    await halted(desk)
    desk.write(HALTING + '    [[task]]\n    name = "c"\n    command = "true c"\n')
    told = await desk.command("apply", "-y")
    assert "halted by a: what that has left waits" in told.err
    await desk.until(lambda: desk.started == ["a", "c"])


@at_desk(HALTING, {"a": 1, "b": 0})
async def test_a_retry_after_a_halt_starts_what_it_names_and_says_what_starts_the_rest(desk: Desk) -> None:
    await halted(desk)
    told = await desk.command("retry", "a")
    await desk.until_state("a", "succeeded")
    await desk.settle()
    assert desk.started == ["a", "a"]
    assert "the run before was halted by a: `gpudeck unpause` starts what that has left" in told.err
    assert (await desk.command("unpause")).code == 0
    await desk.until(lambda: desk.started == ["a", "a", "b"])


@at_desk(HALTING.replace("sim:1", "sim:2") + '    [[task]]\n    name = "c"\n    command = "true c"\n', {"a": 1})
async def test_a_retry_that_lifts_the_halt_of_a_run_that_goes_on_says_so(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "failed")
    assert desk.state("b") == "running"
    told = await desk.command("retry", "a")
    assert "which was halted by a: what that had left starts, too" in told.err


@pytest.mark.parametrize("alive", [True, False], ids=["engine", "no engine"])
@at_desk(PAIR)
async def test_what_is_added_to_a_paused_deck_is_told_to_wait(desk: Desk, alive: bool) -> None:
    await desk.start()
    await desk.until_state("a", "running")
    await desk.command("pause")
    if not alive:
        await desk.leave()
    told = await desk.command("add", "--name", "c", "--", "true")
    assert "paused, nothing starts: `gpudeck unpause` starts tasks again" in told.err


@at_desk(PAIR)
async def test_a_deck_of_which_something_was_only_noted_has_had_no_run(desk: Desk) -> None:
    await desk.command("hold", "a")
    await desk.over()
    told = await desk.command("status")
    assert "none of its runs has begun: `gpudeck start` begins one" in told.err


@at_desk(PAIR)
async def test_a_run_that_is_stopped_from_the_screen_is_told_so(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "running")
    await desk.request("stop", tasks=True, by="Q on the screen")
    await desk.over()
    assert "stopped by Q on the screen" in desk.text("logs/deck.log")


def test_a_plan_tells_what_runs_on_from_what_would_start(deck: Commanded) -> None:
    deck.write(PAIR)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    assert deck.command("stop").code == 0
    rows = {row["task"]: row for row in json.loads(deck.command("plan", "--json").out)}
    assert (rows["a"]["state"], rows["a"]["starts_s"], rows["b"]["state"]) == ("runs already", None, "runs")
    assert "1 of 2 tasks would run on 1 simulated GPUs, over after ~2h00m; 1 task runs already" in (
        deck.command("plan").out
    )
    gate.let()


def test_in_a_copied_folder_what_runs_in_the_original_is_gone_and_starts_in_the_plan(
    deck: Commanded, tmp_path: Path
) -> None:
    deck.write(PAIR)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    assert deck.command("stop").code == 0
    copy = shutil.copytree(deck.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("gate"))
    rows = json.loads(deck.command("plan", str(copy / "tasks.toml"), "--json").out)
    assert [(row["task"], row["state"]) for row in rows] == [("a", "runs"), ("b", "runs")]
    assert "nobody saw its end; the next engine says" in deck.command("ls", "--file", str(copy / "tasks.toml")).out
    gate.let()


def test_a_plan_names_what_runs_on_and_has_left_the_file(deck: Commanded) -> None:
    deck.write(PAIR)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    assert deck.command("stop").code == 0
    deck.write(PAIR.replace('name = "a"', 'name = "z"'))
    assert "runs already; the file no longer has it" in deck.command("plan").out
    gate.let()


def test_a_plan_names_what_a_renamed_task_runs_as(deck: Commanded) -> None:
    deck.write(PAIR)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    deck.write(PAIR.replace('name = "a"', 'name = "z"'))
    assert deck.command("apply", "-y").code == 0
    states = {row["task"]: row["state"] for row in json.loads(deck.command("plan", "--json").out)}
    assert states["z"] == "runs already as a"
    gate.let()


@at_desk(PAIR, {"a": 3, "b": 0})
async def test_the_log_of_a_retry_begins_with_the_number_of_its_run(desk: Desk) -> None:
    assert await desk.run() == 1
    for attempt in (2, 3):
        assert (await desk.command("retry", "a")).code == 0
        await desk.until(lambda attempt=attempt: f"fail  a  attempt {attempt}" in desk.text("logs/deck.log"))
    opened = [line.split("  ") for line in desk.text("logs/deck.log").splitlines() if "deck   open" in line]
    assert [fields[3] for fields in opened] == ["run 1", "run 2", "run 3"]


@at_desk(PAIR)
async def test_what_is_stopped_and_has_left_the_file_is_not_said_to_be_requeued(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "running")
    desk.write(PAIR.replace('name = "a"', 'name = "z"'))
    assert (await desk.command("apply", "-y")).code == 0
    assert (await desk.command("stop", "--tasks")).code == 0
    told = [line for line in desk.text("logs/deck.log").splitlines() if " interrupted a " in line]
    assert len(told) == 1
    assert "requeued" not in told[0]


def test_a_stop_counts_a_task_that_has_left_the_file(deck: Commanded) -> None:
    deck.write(PAIR)
    deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    deck.write(PAIR.replace('name = "a"', 'name = "z"'))
    assert deck.command("apply", "-y").code == 0
    told = deck.command("stop", "--tasks", "--json")
    assert json.loads(told.out)["stopped"] == 1


def test_a_plan_of_an_unfinished_run_is_of_how_it_goes_on(deck: Commanded) -> None:
    one = '[[task]]\nname = "{}"\ncommand = "{}"\n'
    head = '[deck]\ngpus = "sim:2"\n'
    tasks = [one.format("bad", "exit 3"), one.format("long", "read _ <gate"), one.format("later", "read _ <gate; true")]
    deck.write(head + "".join(tasks))
    gate = deck.gate()
    assert deck.command("start").code == 0
    for name in ("long", "later"):
        deck.until_state(name, "running")
    assert deck.command("stop").code == 0
    deck.write(head + "".join(tasks).replace("gate; true", "gate; false"))
    rows = [(row["task"], row["state"]) for row in json.loads(deck.command("plan", "--json").out)]
    assert sorted(rows) == [
        ("bad", "failed and stays so"), ("later", "runs"), ("later", "runs already"), ("long", "runs already")
    ]  # fmt: skip
    gate.let(2)
    until(lambda: not deck.living())
    rows = [(row["task"], row["state"]) for row in json.loads(deck.command("plan", "--json").out)]
    assert ("long", "runs already") not in rows
    assert ("later", "runs") in rows


C_ALONE = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "c"
    command = "true c"
"""
A_AND_C = f"""{C_ALONE}
    [[task]]
    name = "a"
    command = "true a"
"""


@pytest.mark.parametrize("words", [("--only", "c"), ("--exclude", "a")])
@at_desk(A_AND_C, {"a": 1, "c": 0})
async def test_a_start_leaves_what_failed_before_a_run_that_left_it_out(desk: Desk, words: tuple[str, ...]) -> None:
    assert await desk.run() == 1
    assert await desk.run(*words) == 0
    started = list(desk.started)
    await desk.command("start")
    assert (desk.started, (await desk.rows())["a"]["state"]) == (started, "failed")


@at_desk(A_AND_C, {"a": 1, "c": 0})
async def test_a_start_leaves_what_failed_before_a_run_that_had_it_not_in_its_file(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(C_ALONE)
    assert await desk.run() == 0
    desk.write(A_AND_C)
    started = list(desk.started)
    await desk.command("start")
    assert (desk.started, (await desk.rows())["a"]["state"]) == (started, "failed")


@at_desk(A_AND_C, {"a": 0, "c": 0})
async def test_a_start_leaves_an_edited_result_as_it_is_that_the_last_run_left_out(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(A_AND_C.replace("true a", "true other"))
    assert await desk.run("--only", "c") == 0
    started = list(desk.started)
    await desk.command("start")
    assert (desk.started, (await desk.rows())["a"]["changed"]) == (started, True)


@at_desk(A_AND_C, {"a": 1, "c": 0})
async def test_a_plan_names_rerun_stale_only_where_something_would_become_stale(desk: Desk) -> None:
    assert await desk.run() == 1
    told = (await desk.command("plan")).out
    assert "with a screen a would wait for you" in told
    assert "rerun_stale" not in told


@at_desk(A_AND_C, {"c": 0})
async def test_a_plan_names_what_runs_and_waits_for_you_once_it_ends_as_the_file_has_changed(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "running")
    await desk.leave()
    desk.write(A_AND_C.replace("true a", "true other"))
    assert "with a screen a would wait for you" in (await desk.command("plan")).out
    await desk.start(purpose="start")
    assert "its work as the file has it now waits for `gpudeck retry`" in desk.text("logs/deck.log")


LEAVING = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "left"
    command = "echo done >out"
    outputs = ["out"]
"""


def test_a_start_names_what_has_lost_its_outputs_and_would_wait_for_you(deck: Commanded) -> None:
    deck.write(LEAVING)
    assert deck.run().code == 0
    assert "outputs are gone" not in deck.command("start").err
    deck.command("stop")
    (deck.folder / "out").unlink()
    said = deck.command("start").err
    assert "left succeeded, and the outputs are gone or another attempt's by now: `gpudeck retry`" in said


def test_status_names_what_runs_where_the_state_was_removed_under_it(deck: Commanded) -> None:
    deck.write(PAIR)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("a", "running")
    until((deck.folder / "logs/a/attempt-1.json").exists)
    deck.kill_engine()
    shutil.rmtree(deck.folder / ".gpudeck")
    said = deck.command("status").err
    assert "a attempt 1 still runs" in said
    assert "was removed" in said
    gate.let()


@at_desk(PAIR)
async def test_show_says_without_an_engine_that_a_task_waits_for_one(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a", "running")
    assert (await desk.command("stop", "--tasks")).code == 0
    assert "waits for an engine\n" in (await desk.command("show", "b")).out
