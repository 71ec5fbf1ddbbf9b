"""A command that starts an engine for an unfinished run is taken before the engine starts anything."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import MIXED
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "read _ <gate"
    [[task]]
    name = "next-{i}"
    matrix.i = [1, 2]
    command = "echo {i} >>ran"
"""
SOON = {"next-1": 0, "next-2": 0}


async def left(desk: Desk) -> None:
    """No engine runs, the first task has ended since, two are queued."""
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    await desk.ends("first")


async def until_all_ran(desk: Desk) -> None:
    await desk.until(lambda: sorted(desk.started) == ["first", "next-1", "next-2"])


@at_desk(DECK, SOON)
async def test_a_pause_without_an_engine_starts_no_task(desk: Desk) -> None:
    await left(desk)
    done = await desk.command("pause")
    assert (done.code, "paused: nothing starts" in done.out) == (0, True)
    await desk.until_state("first", "succeeded")
    await desk.later(60)
    assert desk.started == ["first"]
    assert (await desk.command("unpause")).code == 0
    await until_all_ran(desk)


@pytest.mark.parametrize("verb", ["hold", "cancel", "kill"])
@at_desk(DECK, SOON)
async def test_a_verb_without_an_engine_comes_before_the_first_start(desk: Desk, verb: str) -> None:
    await left(desk)
    assert (await desk.command(verb, "next-1")).code == 0
    await desk.until_state("next-2", "succeeded")
    assert desk.started == ["first", "next-2"]


@at_desk(DECK, SOON)
async def test_a_priority_without_an_engine_decides_what_is_started_first(desk: Desk) -> None:
    await left(desk)
    assert (await desk.command("priority", "next-2", "5")).code == 0
    await until_all_ran(desk)
    assert desk.started == ["first", "next-2", "next-1"]


@at_desk(DECK, SOON)
async def test_a_drain_without_an_engine_comes_before_the_first_start(desk: Desk) -> None:
    await left(desk)
    assert (await desk.command("gpus", "drain", "0")).code == 0
    await desk.until_state("first", "succeeded")
    await desk.later(60)
    assert desk.started == ["first"]
    assert (await desk.command("gpus", "enable", "0")).code == 0
    assert (await desk.command("start")).code == 0
    await until_all_ran(desk)


@at_desk(DECK, SOON)
async def test_nothing_starts_while_the_user_is_asked(desk: Desk) -> None:
    await left(desk)
    asked = desk.begin("cancel", "next-*", keys="")
    await asked.until("cancel 2 tasks")
    await desk.later(30)
    assert desk.started == ["first"]
    asked.type("y\n")
    assert (await asked.finish()).code == 0
    await desk.later(60)
    assert desk.started == ["first"]


@at_desk(DECK, SOON)
async def test_an_engine_to_which_nobody_comes_starts_its_tasks_by_itself(desk: Desk) -> None:
    await left(desk)
    await desk.start(purpose="act")
    await desk.later(4)
    assert desk.started == ["first"]
    await desk.later(1)
    await until_all_ran(desk)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cancel next-*", "cancel 2 tasks (2 queued): next-1, next-2? Nobody can be asked here: -y says yes"),
        ("hold next-*", "hold 2 tasks (2 queued): next-1, next-2? Nobody can be asked here: -y says yes"),
        ("priority next-1 99999999999999999999", "priority wants a number from -9007199254740992 to 9007199254740992"),
        ("gpus drain 0-99999999999", "GPU 0-99999999999: a range goes from a lower number to a higher one"),
        ("gpus drain 3-1", "GPU 3-1: a range goes from a lower number to a higher one"),
        ("gpus drain 9", "gpudeck: GPU 9: this deck uses 0\n"),
    ],
)
@at_desk(DECK, SOON)
async def test_no_engine_is_started_for_what_is_refused(desk: Desk, words: str, said: str) -> None:
    await left(desk)
    done = await desk.command(*words.split())
    assert (done.code, said in done.err, desk.engines) == (2, True, 1), done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("good", "bad", "--not-on", "7"), "GPU 7: this deck uses 0, 1"),
        (("*",), "retry 2 tasks (1 succeeded, 1 failed): good, bad?"),
    ],
)
@at_desk(MIXED, {"good": 0, "bad": 3})
async def test_no_engine_is_started_for_a_retry_that_is_refused(desk: Desk, words: tuple[str, ...], said: str) -> None:
    assert await desk.run() == 1
    done = await desk.command("retry", *words)
    assert (done.code, said in done.err, desk.engines) == (2, True, 1)


@at_desk(DECK)
async def test_no_engine_is_started_to_drain_a_gpu_of_a_deck_that_never_ran(desk: Desk) -> None:
    done = await desk.command("gpus", "drain", "0,3")
    assert (done.code, done.err, desk.engines) == (2, "gpudeck: GPU 3: this deck uses 0\n", 0)
    assert not (desk.folder / ".gpudeck").exists()
