"""What a run was started with ends with it: the next one has the file and what is given then."""

from __future__ import annotations

import pytest

from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "none"
    [vars]
    lr = 1
    [[task]]
    name = "t-{i}"
    matrix.i = [1]
    command = "echo {lr} {i}"
"""
MORE = DECK.replace("[1]", "[1, 2]")
ENDS = {"t-1": 0, "t-2": 0}
CHAIN = """
    [deck]
    gpus = "none"
    [[task]]
    name = "a"
    command = "true a"
    [[task]]
    name = "b"
    command = "true b"
    [[task]]
    name = "c"
    command = "true c"
    needs = ["b"]
"""
NEWER = CHAIN + '    [[task]]\n    name = "d"\n    command = "true d"\n'
ALL_END = {"a": 0, "b": 0, "c": 0, "d": 0}


def said(desk: Desk, name: str) -> str:
    return desk.order(name).argv[-1]


async def ended(desk: Desk, *words: str) -> None:
    """A run that was started with *words* has ended, and its engine, too."""
    assert (await desk.command("start", *words)).code == 0
    await desk.settle()
    await desk.leave()
    assert not desk.in_state("running")


@at_desk(DECK, ENDS)
async def test_a_plain_start_has_the_values_of_the_file_after_a_run_with_others_has_ended(desk: Desk) -> None:
    await ended(desk, "tasks.toml", "lr=9")
    assert "echo 9 1" in said(desk, "t-1")
    desk.write(MORE)
    plain = await desk.command("start")
    await desk.until_state("t-2", "succeeded")
    assert "echo 1 2" in said(desk, "t-2")
    assert "lr=9" not in plain.err


@at_desk(DECK, ENDS)
async def test_it_has_them_while_the_engine_of_that_run_still_idles_as_well(desk: Desk) -> None:
    await desk.command("start", "tasks.toml", "lr=9")
    await desk.until_state("t-1", "succeeded")
    desk.write(MORE)
    assert (await desk.command("start")).code == 0
    await desk.until_state("t-2", "succeeded")
    assert ("echo 1 2" in said(desk, "t-2"), desk.engines) == (True, 2)


@at_desk(DECK, ENDS)
async def test_a_start_under_the_same_options_keeps_the_engine_that_idles(desk: Desk) -> None:
    await desk.command("start", "tasks.toml", "lr=9")
    await desk.until_state("t-1", "succeeded")
    assert (await desk.command("start", "tasks.toml", "lr=9")).code == 0
    assert desk.engines == 1


@at_desk(DECK, ENDS)
async def test_a_start_says_what_it_has_found_changed_and_a_look_afterwards_agrees(desk: Desk) -> None:
    await ended(desk, "tasks.toml", "lr=9")
    assert not (await desk.row("t-1"))["changed"]
    await desk.command("start")
    assert (await desk.row("t-1"))["changed"]
    await desk.leave()
    assert (await desk.row("t-1"))["changed"]


@at_desk(DECK, ENDS)
async def test_a_screen_over_an_ended_run_shows_nothing_as_changed_and_names_what_still_holds(desk: Desk) -> None:
    await ended(desk, "tasks.toml", "lr=9")
    screen = desk.begin("tasks.toml", "--plain", terminal=True)
    await screen.until("runs on when this ends")
    assert "--set lr=9 of the ended run still holds: the next run that `gpudeck start" in screen.said
    assert not (await desk.row("t-1"))["changed"]


@at_desk(MORE, {"t-1": 1, "t-2": 0})
async def test_a_retry_on_an_ended_run_goes_on_with_its_values_and_says_so(desk: Desk) -> None:
    await ended(desk, "tasks.toml", "lr=9")
    done = await desk.command("retry", "t-1")
    assert (done.code, "--set lr=9 of the ended run still holds" in done.err) == (0, True)
    assert "echo 9 1" in said(desk, "t-1")
    assert desk.started == ["t-1", "t-2", "t-1"]


@at_desk(MORE, {"t-1": 0})
async def test_an_unfinished_run_goes_on_as_it_was_started(desk: Desk) -> None:
    await desk.command("start", "tasks.toml", "lr=9")
    await desk.leave()
    done = await desk.command("start")
    assert "warning: the run goes on as it was started: --set lr=9" in done.err
    assert desk.order("t-2").argv[-1].endswith("echo 9 2")


@at_desk(CHAIN, ALL_END)
async def test_a_plain_start_takes_up_what_an_ended_selection_left_out(desk: Desk) -> None:
    await ended(desk, "--only", "a")
    done = await desk.command("start")
    await desk.until_state("c", "succeeded")
    assert (sorted(desk.started), "left out" in done.err) == (["a", "b", "c"], False)


@at_desk(CHAIN, ALL_END)
async def test_a_look_starts_nothing_that_an_ended_selection_left_out(desk: Desk) -> None:
    await ended(desk, "--only", "a")
    await desk.start()
    await desk.later(10)
    assert desk.started == ["a"]
    assert (await desk.row("b"))["left_out"]


@pytest.mark.parametrize("alive", [True, False], ids=["engine", "no engine"])
@pytest.mark.parametrize("words", [("--only", "a"), ("--exclude", "[bc]"), ("--limit", "1", "--exclude", "[bc]")])
@at_desk(CHAIN, ALL_END)
async def test_a_retry_takes_in_what_an_ended_selection_left_out_and_what_that_needs(
    desk: Desk, words: tuple[str, ...], alive: bool
) -> None:
    await desk.command("start", *words)
    await desk.until_state("a", "succeeded")
    if not alive:
        await desk.leave()
    done = await desk.command("retry", "c")
    assert (done.code, done.err.count("left out")) == (0, 0), done.err
    await desk.until_state("c", "succeeded")
    assert desk.started == ["a", "b", "c"]


@pytest.mark.parametrize("alive", [True, False], ids=["engine", "no engine"])
@at_desk(CHAIN, ALL_END)
async def test_apply_takes_in_what_has_come_into_the_file_since_a_selection_ended(desk: Desk, alive: bool) -> None:
    await desk.command("start", "--only", "a")
    await desk.until_state("a", "succeeded")
    if not alive:
        await desk.leave()
    desk.write(NEWER)
    done = await desk.command("apply", "-y")
    assert done.code == 0, done.out
    await desk.until_state("d", "succeeded")
    await desk.settle()
    assert desk.started == ["a", "d"]


@at_desk(CHAIN, ALL_END)
async def test_what_a_command_only_notes_of_such_a_task_is_not_forgotten_by_the_next_start(desk: Desk) -> None:
    await ended(desk, "--only", "a")
    desk.write(NEWER)
    assert (await desk.command("hold", "d")).code == 0
    await desk.over()
    assert not (await desk.row("d"))["left_out"]


@at_desk(CHAIN, {"b": 0, "c": 0, "d": 0})
async def test_a_task_that_was_added_to_a_run_of_a_selection_is_the_next_engines_as_well(desk: Desk) -> None:
    await desk.command("start", "--only", "a")
    await desk.until_state("a", "running")
    assert (await desk.command("add", "--name", "d", "--", "true", "d")).code == 0
    await desk.until_state("d", "succeeded")
    assert (await desk.command("add", "--name", "e", "--", "true", "e")).code == 0
    await desk.until_state("e", "running")
    await desk.leave()
    await desk.start()
    assert [row["left_out"] for row in (await desk.rows("d", "e")).values()] == [False, False]
