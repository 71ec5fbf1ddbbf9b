"""Run options given again while an engine runs the deck: what it takes as a change, and what it refuses."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.events import OptionsChanged, RunStarted
from gpudeck.engine.errors import UsageError
from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import until
from tests.inside.commands import RunOptions, decode
from tests.rigs.desk import Desk, at_desk

MANY = """
    [deck]
    gpus = "sim:4"
    [[task]]
    name = "wait-{i}"
    matrix.i = [1, 2, 3, 4, 5, 6, 7, 8]
    command = "read _ <gate"
"""
CHAIN = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = "true"
    [[task]]
    name = "data"
    command = "true"
    [[task]]
    name = "train"
    needs = ["data"]
    command = "true"
    [[task]]
    name = "other"
    command = "true"
"""


async def given_again(desk: Desk, *options: str) -> str:
    """What `gpudeck tasks.toml OPTIONS` says before it follows the deck."""
    following = desk.begin("tasks.toml", "--plain", *options, terminal=True)
    await following.until("runs on when this ends")
    await desk.settle()
    return following.said


async def refused(desk: Desk, *options: str) -> str:
    done = await desk.begin("tasks.toml", "--plain", *options, terminal=True).finish()
    assert done.code == 2, done.err
    return done.err


async def four_run(desk: Desk, *options: str) -> None:
    await desk.start(*options)
    await desk.until(lambda: len(desk.in_state("running")) == 4)


async def gpus_in_use(desk: Desk) -> list[int]:
    rows = await desk.rows("state:running")
    return sorted(gpu for row in rows.values() for gpu in row["gpus"])


def changes(desk: Desk) -> list[RunOptions]:
    return [decode(fact.options) for fact in desk.facts() if isinstance(fact, OptionsChanged)]


def test_more_slots_per_gpu_are_filled_at_once(deck: Commanded) -> None:
    deck.gate()
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(deck.rows("state:running")) == 4)
    pid = deck.engine_pid()
    with typed(deck, "tasks.toml", "--plain", "--slots-per-gpu", "2", columns=300) as terminal:
        terminal.until("runs on when this ends")
        assert "the deck goes on with --slots-per-gpu 2 (before: as in the file)" in terminal.shown
    until(lambda: len(deck.rows("state:running")) == 8)
    assert deck.engine_pid() == pid


@at_desk(MANY)
async def test_fewer_slots_stop_nothing_and_start_nothing_until_there_is_room(desk: Desk) -> None:
    await four_run(desk, "--slots-per-gpu", "2", "--gpus", "sim:2")
    assert "--slots-per-gpu 1 (before: --slots-per-gpu 2)" in await given_again(desk, "--slots-per-gpu", "1")
    assert await gpus_in_use(desk) == [0, 0, 1, 1]
    by_gpu = [list(await desk.rows(f"state:running gpu:{gpu}")) for gpu in (0, 1)]
    await desk.ends(by_gpu[0][0])
    await desk.ends(by_gpu[1][0])
    assert (len(desk.started), await gpus_in_use(desk)) == (4, [0, 1])
    await desk.ends(by_gpu[0][1])
    assert len(desk.started) == 5


@at_desk(MANY)
async def test_gpus_that_leave_the_deck_drain_and_come_back_when_asked_for(desk: Desk) -> None:
    await four_run(desk)
    assert "--gpus sim:2 (before: as in the file)" in await given_again(desk, "--gpus", "sim:2")
    assert len(desk.in_state("running")) == 4
    for number in (1, 2, 3, 4):
        await desk.ends(f"wait-{number}")
    assert (len(desk.started), await gpus_in_use(desk)) == (6, [0, 1])
    assert "--gpus sim:4 (before: --gpus sim:2)" in await given_again(desk, "--gpus", "sim:4")
    assert await gpus_in_use(desk) == [0, 1, 2, 3]


@at_desk(MANY)
async def test_what_was_changed_holds_for_the_next_engine(desk: Desk) -> None:
    await four_run(desk)
    await given_again(desk, "--gpus", "sim:2", "--only", "wait-[1-6]")
    await desk.leave()
    assert changes(desk) == [RunOptions(gpus="sim:2", only=("wait-[1-6]",))]
    await desk.start()
    assert len(desk.in_state("running")) == 4
    for number in range(1, 7):
        await desk.ends(f"wait-{number}")
    assert desk.started == [f"wait-{number}" for number in range(1, 7)]


@at_desk(MANY)
async def test_only_leaves_out_what_waits_and_what_runs_goes_on(desk: Desk) -> None:
    await four_run(desk)
    said = await given_again(desk, "--only", "wait-8")
    assert "--only wait-8 (before: all tasks); 3 tasks left out" in said
    assert len(desk.in_state("running")) == 4
    await desk.ends("wait-1")
    assert desk.started == ["wait-1", "wait-2", "wait-3", "wait-4", "wait-8"]
    rows = await desk.rows()
    assert {name for name, row in rows.items() if row["left_out"]} == {"wait-5", "wait-6", "wait-7"}


@at_desk(MANY, {"wait-1": 0, "wait-2": 0})
async def test_only_takes_tasks_back_after_the_run_has_ended(desk: Desk) -> None:
    await desk.start("--only", "wait-1")
    await desk.until_state("wait-1", "succeeded")
    said = await given_again(desk, "--only", "wait-[12]")
    assert "--only wait-[12] (before: --only wait-1); 1 task more" in said
    assert desk.started == ["wait-1", "wait-2"]
    assert [fact.run for fact in desk.facts() if isinstance(fact, RunStarted)] == [1, 2]


@at_desk(CHAIN)
async def test_a_need_that_is_left_out_and_not_done_is_refused_by_name(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("long", "running")
    said = await refused(desk, "--only", "train")
    assert "--only train: train needs data, which is left out and not done: --with-needs takes it along" in said
    assert not any(row["left_out"] for row in (await desk.rows()).values())
    assert "1 task left out" in await given_again(desk, "--only", "train", "--with-needs")
    for name in ("long", "data", "train"):
        await desk.ends(name)
    assert desk.started == ["long", "data", "train"]


@at_desk(CHAIN, {"data": 0, "train": 0})
async def test_a_need_that_is_left_out_and_done_is_fine(desk: Desk) -> None:
    assert await desk.run("--only", "data") == 0
    await desk.start()
    await given_again(desk, "--only", "train")
    assert desk.started == ["data", "train"]


@at_desk(MANY)
async def test_an_edit_of_the_file_does_not_come_along_with_other_options(desk: Desk) -> None:
    await four_run(desk)
    desk.write(MANY.replace("7, 8]", "7]"))
    await given_again(desk, "--slots-per-gpu", "2")
    assert len(desk.in_state("running")) == 8
    assert "gone, running" in (await desk.command("apply", "--dry-run")).out


@at_desk(MANY)
async def test_an_edit_is_planned_under_the_options_that_were_changed(desk: Desk) -> None:
    await four_run(desk)
    await given_again(desk, "--only", "wait-[1-5]", "--gpus", "sim:2")
    desk.write(MANY.replace("7, 8]", "7, 8, 9]"))
    done = await desk.command("apply", "--dry-run")
    assert (done.code, "gone" in done.out, "gpus" in done.out) == (0, False, False)
    for number in (1, 2, 5):
        await desk.ends(f"wait-{number}")
    assert desk.started == [f"wait-{number}" for number in range(1, 6)]


@at_desk(MANY)
async def test_the_same_options_again_change_nothing(desk: Desk) -> None:
    await desk.start("--slots-per-gpu", "2")
    assert "goes on with" not in await given_again(desk, "--slots-per-gpu", "2")
    assert changes(desk) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--limit", "1"), "--limit 1: the engine that runs this deck was started with no --limit"),
        (("--slots-per-gpu", "2", "--fail-fast"), "--fail-fast: the engine that runs this deck"),
        (("--slots-per-gpu", "0"), "--slots-per-gpu must be"),
        (("--gpus", "none"), "--gpus none: an engine that runs cannot change to that"),
        (("--gpus", "sim:8"), "--gpus sim:8: an engine that runs cannot change to that"),
        (("--only", "nothing"), "--only nothing: no task matches"),
    ],
)
@at_desk(MANY)
async def test_what_cannot_be_changed_is_refused_and_leaves_all_as_it_is(
    desk: Desk, options: tuple[str, ...], words: str
) -> None:
    await four_run(desk)
    assert words in await refused(desk, *options)
    await desk.settle()
    assert (len(desk.in_state("running")), changes(desk)) == (4, [])


@at_desk(MANY)
async def test_the_request_tells_what_holds_then(desk: Desk) -> None:
    await desk.start()
    answer = await desk.request("change", slots_per_gpu="2")
    assert decode(answer["options"]) == RunOptions(slots_per_gpu="2")
    assert (await desk.request("options"))["options"] == answer["options"]
    assert (await desk.request("change", slots_per_gpu="2"))["text"] == ""
    with pytest.raises(UsageError, match="bad arguments"):
        await desk.request("change", set={"x": "1"})


@at_desk(MANY)
async def test_the_change_is_noted_in_the_log_of_the_deck(desk: Desk) -> None:
    await desk.start()
    await given_again(desk, "--slots-per-gpu", "2")
    await desk.until(lambda: "the deck goes on with --slots-per-gpu 2" in desk.text("logs/deck.log"))
