"""`gpudeck start` says why what somebody may expect of it does not happen, and what does it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.commands_rig import Commanded
from tests.e2e.live_rig import watching
from tests.rigs.desk import Desk, at_desk

TWO = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "a{i}"
    matrix.i = [1, 2]
    outputs = ["out{i}"]
    command = "true"
"""
ENDS = {"a1": 0, "a2": 0, "b": 0, "b2": 0}


@at_desk(TWO)
async def test_a_start_of_a_paused_deck_says_so_and_how_it_goes_on(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("a1", "running")
    await desk.command("pause")
    assert "paused, nothing starts: `gpudeck unpause` starts tasks again" in (await desk.command("start")).err
    assert json.loads((await desk.command("start", "--json")).out)["paused"] == "paused"
    await desk.command("unpause")
    assert "unpause" not in (await desk.command("start")).err


@at_desk(TWO)
async def test_with_no_skip_existing_a_start_runs_what_never_ran_although_its_outputs_are_there(desk: Desk) -> None:
    Path("out1").write_text("there")
    told = await desk.command("start", "--no-skip-existing")
    assert "what has ended stays so until `gpudeck retry '*'`" in told.err
    await desk.until_state("a1", "running")


@at_desk(TWO)
async def test_without_it_such_a_task_is_done(desk: Desk) -> None:
    Path("out1").write_text("there")
    assert "skip-existing" not in (await desk.command("start")).err
    await desk.until_state("a1", "cached")


@at_desk(TWO.replace("outputs", "tags"), ENDS)
async def test_a_start_tells_of_changed_tasks_also_where_others_run(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(
        TWO.replace("outputs", "tags").replace('"true"', '"true 1"') + '[[task]]\nname = "new"\ncommand = "sleep"\n'
    )
    told = (await desk.command("start")).err
    assert "2 changed: `gpudeck retry state:changed` runs them again" in told


@at_desk(TWO.replace("outputs", "tags"), {"a2": 0})
async def test_a_start_tells_of_what_the_run_that_goes_on_leaves_out(desk: Desk) -> None:
    await desk.command("start", "--only", "a1")
    await desk.until_state("a1", "running")
    await desk.leave()
    told = await desk.command("start")
    assert "1 task left out by --only a1: `gpudeck start --only '*'` takes up all" in told.err
    assert "left out" not in (await desk.command("start", "--only", "*")).err
    await desk.ends("a1")
    await desk.until(lambda: desk.started == ["a1", "a2"])


@at_desk(TWO.replace("outputs", "tags"), {"b": 0})
async def test_what_is_added_to_an_unfinished_run_of_a_selection_starts_with_the_command_that_add_names(
    desk: Desk,
) -> None:
    await desk.command("start", "--only", "a1")
    await desk.until_state("a1", "running")
    await desk.leave()
    told = await desk.command("add", "--name", "b", "--", "true")
    assert "left out by --only a1" in told.err
    assert "`gpudeck start --only a1 --only b` at once" in told.err
    await desk.command("start", "--only", "a1", "--only", "b")
    await desk.ends("a1")
    await desk.until(lambda: desk.started == ["a1", "b"])


@at_desk(TWO.replace("outputs", "tags"), ENDS)
async def test_add_start_starts_it_at_once_and_nothing_else_that_was_left_out(desk: Desk) -> None:
    assert await desk.run("--only", "a1") == 0
    await desk.command("add", "--start", "--name", "b", "--", "true")
    await desk.until(lambda: desk.started == ["a1", "b"])


@at_desk(TWO.replace("outputs", "tags"), ENDS)
async def test_an_exclusion_of_an_ended_run_leaves_out_nothing_that_is_added(desk: Desk) -> None:
    assert await desk.run("--exclude", "[ab]*2") == 0
    told = await desk.command("add", "--start", "--name", "b2", "--", "true")
    assert "left out" not in told.err
    await desk.until(lambda: desk.started == ["a1", "b2"])


def test_a_start_tells_what_its_engine_warns_of(deck: Commanded) -> None:
    deck.write(TWO.replace('"true"', '"read _ <gate; echo >out{i}"').replace("sim:1", "sim:2"))
    gate = deck.gate()
    deck.start().started("a1", "a2")
    told = deck.command("start", "--name", "b")
    assert "warning: the deck tasks in" in told.err
    assert "has the outputs of a1 and 1 more" in told.err
    assert "warning" not in deck.command("start", "--name", "b").err
    gate.let(4)


ONE = """
    [deck]
    gpus = "none"
    [[task]]
    name = "a"
    command = "true {word}"
"""
MORE = '    [[task]]\n    name = "b"\n    command = "true b"\n'


def _ended(deck: Commanded) -> int:
    """A run is over, and its engine is still there: its pid."""
    deck.write(ONE.format(word="one"))
    assert deck.command("start").code == deck.command("wait").code == 0
    deck.write(ONE.format(word="two") + MORE)
    return deck.engine_pid()


def test_a_start_right_after_a_run_takes_the_file_as_it_is_now(deck: Commanded) -> None:
    before = _ended(deck)
    deck.command("start")
    assert (deck.command("wait").code, deck.state("b"), deck.engine_pid() != before) == (0, "succeeded", True)
    assert deck.rows("a")["a"]["changed"]


def test_so_does_a_headless_one_which_runs_what_was_changed_too(deck: Commanded) -> None:
    _ended(deck)
    ran = deck.run()
    assert (ran.code, ran.states) == (0, {"a": "succeeded", "b": "succeeded"})


def test_an_engine_that_somebody_looks_at_makes_way_for_no_start(deck: Commanded) -> None:
    before = _ended(deck)
    with watching(deck):
        assert "`gpudeck apply` takes it up" in deck.command("start").err
        refused = deck.run()
    assert (refused.code, f"is run by gpudeck {before}" in refused.err, deck.engine_pid()) == (3, True, before)
