"""An edit of the task file waits until somebody applies it, whatever brings an engine back meanwhile."""

from __future__ import annotations

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import Ran
from tests.rigs.desk import Desk, at_desk

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "read _ <gate"
    [[task]]
    name = "next"
    command = "echo old"
    [[task]]
    name = "last"
    command = "true"
"""
EDITED = DECK.replace("echo old", "echo new") + '[[task]]\nname = "more"\ncommand = "true"\n'
SOON = {"next": 0, "last": 0, "more": 0}


async def left_with_an_edit(desk: Desk) -> None:
    """The first task runs, two are queued, no engine runs; the file has another command and a new task, refused."""
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    desk.write(EDITED)
    asked = desk.begin("apply", keys="n\n")
    assert "nothing was applied" in (await asked.finish()).out


async def saved_again_while_the_question_stood(desk: Desk) -> Ran:
    """The end of an apply that asks; the file is saved once more before the answer, which is yes."""
    asked = desk.begin("apply", keys="")
    await asked.until("apply this?")
    desk.write(EDITED.replace("echo new", "echo newer"))
    asked.type("y\n")
    return await asked.finish()


@pytest.mark.parametrize("words", ["priority last 1", "hold last", "unpause", "pause"])
@at_desk(DECK, SOON)
async def test_an_edit_that_was_refused_is_taken_up_by_no_other_command(desk: Desk, words: str) -> None:
    await left_with_an_edit(desk)
    await desk.command(*words.split())
    await desk.ends("first")
    if words == "pause":
        assert (await desk.command("unpause")).code == 0
    await desk.until(lambda: "next" in desk.started)
    assert (desk.order("next").argv[-1], "more" in desk.started) == ("echo old", False)
    planned = (await desk.command("apply", "--dry-run")).out
    assert "more" in planned
    assert (await desk.command("apply", "-y")).code == 0
    await desk.until(lambda: "more" in desk.started)


@at_desk(DECK, SOON)
async def test_an_engine_in_the_place_of_one_that_vanished_goes_on_with_the_file_as_it_was(desk: Desk) -> None:
    await left_with_an_edit(desk)
    await desk.start(purpose="resume")
    await desk.ends("first")
    await desk.until(lambda: {"next", "last"} <= set(desk.started))
    await desk.settle()
    assert (desk.order("next").argv[-1], "more" in desk.started) == ("echo old", False)


@at_desk(DECK, SOON)
async def test_a_task_that_was_taken_out_by_an_edit_which_was_refused_still_runs(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    desk.write(DECK.replace('[[task]]\n    name = "next"\n    command = "echo old"\n', ""))
    assert "nothing was applied" in (await desk.begin("apply", keys="n\n").finish()).out
    assert (await desk.command("priority", "last", "1")).code == 0
    await desk.ends("first")
    await desk.until(lambda: {"next", "last"} <= set(desk.started))


@at_desk(DECK, SOON)
async def test_what_add_put_beside_a_waiting_edit_is_not_lost_with_the_engine(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    desk.write(EDITED)
    assert (await desk.command("add", "--name", "added", "--", "true")).code == 0
    await desk.leave()
    desk.ending["added"] = desk.ending["last"]
    await desk.start(purpose="resume")
    await desk.ends("first")
    await desk.until(lambda: {"next", "last", "added"} <= set(desk.started))
    await desk.settle()
    assert (desk.order("next").argv[-1], "more" in desk.started) == ("echo old", False)


@at_desk(DECK, {"first": 0, **SOON})
async def test_unpause_of_an_ended_run_that_is_not_paused_starts_nothing(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(EDITED)
    assert "nothing is paused" in (await desk.command("unpause")).out
    assert "more" not in desk.started


@at_desk(DECK, {"first": 0, **SOON})
async def test_apply_refuses_a_file_that_was_saved_again_while_the_question_stood(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(EDITED)
    done = await saved_again_while_the_question_stood(desk)
    assert (done.code, "look at it anew" in done.err) == (2, True)
    await desk.later(60)
    assert desk.started == ["first", "next", "last"]


@pytest.mark.parametrize("words", ["hold last", "cancel last", "priority last 1", "gpus drain 0"])
@at_desk(DECK, SOON)
async def test_after_all_tasks_were_stopped_nothing_starts_again_for_another_task(desk: Desk, words: str) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    assert (await desk.command("stop", "--tasks")).code == 0
    done = await desk.command(*words.split())
    assert (done.code, "`gpudeck start` runs the deck" in done.err) == (0, True)
    await desk.later(60)
    assert (desk.started, desk.runs) == (["first"], False)


@at_desk(DECK, {"first": 0, **SOON})
async def test_what_an_ended_run_left_out_is_cancelled_and_held_for_the_next(desk: Desk) -> None:
    assert await desk.run("--only", "first") == 0
    assert "next (cancelled)" in (await desk.command("cancel", "next")).out
    assert "last (held)" in (await desk.command("hold", "last")).out
    assert (await desk.command("start")).code == 0
    await desk.later(60)
    assert desk.started == ["first"]


@at_desk(DECK, SOON)
async def test_retry_says_that_an_edit_waits(desk: Desk) -> None:
    await left_with_an_edit(desk)
    await desk.command("cancel", "next")
    assert "`gpudeck apply` takes it up" in (await desk.command("retry", "next")).err


@at_desk(DECK, {**SOON, "needy": 0, "added": 0})
async def test_what_was_added_runs_after_a_crash_also_where_it_needs_a_task_of_the_waiting_edit(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    desk.write(EDITED)
    assert (await desk.command("add", "--name", "needy", "--needs", "more", "--", "true")).code == 0
    await desk.leave()
    assert (await desk.command("priority", "last", "1")).code == 0
    await desk.ends("first")
    await desk.until(lambda: "needy" in desk.started)


@at_desk(DECK, {**SOON, "added": 0})
async def test_what_was_added_outlives_a_change_of_options_and_a_second_add(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    desk.write(EDITED)
    for name in ("added", "again"):
        assert (await desk.command("add", "--name", name, "--", "true")).code == 0
    assert (await desk.command("start", "--slots-per-gpu", "2")).code == 0
    await desk.leave()
    await desk.start(purpose="resume")
    rows = await desk.rows()
    assert {rows[name]["gone"] for name in ("added", "again")} == {False}


@at_desk(DECK + 'env_file = "my.env"\n', SOON)
async def test_a_kept_file_that_cannot_be_used_any_more_bars_nothing(desk: Desk) -> None:
    (desk.folder / "my.env").write_text("A=1\n")
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    (desk.folder / "my.env").unlink()
    desk.write(DECK)
    done = await desk.command("hold", "last")
    assert (done.code, "cannot be used any more" in (desk.folder / "logs/deck.log").read_text()) == (0, True), done.err


@at_desk(DECK, {"first": 0, **SOON})
async def test_an_edit_still_waits_after_the_engine_of_an_ended_run_has_vanished(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("last", "succeeded")
    await desk.leave()
    desk.write(EDITED)
    await desk.start(purpose="resume")
    await desk.later(5)
    assert "more" not in desk.started
    assert "more" in (await desk.command("apply", "--dry-run")).out


@at_desk(DECK, SOON)
async def test_what_is_added_without_an_engine_to_an_unfinished_run_starts_with_the_rest(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    assert (await desk.command("pause")).code == 0
    await desk.leave()
    desk.ending["added"] = desk.ending["last"]
    assert (await desk.command("add", "--name", "added", "--", "true")).code == 0
    assert (await desk.command("unpause")).code == 0
    await desk.ends("first")
    await desk.until(lambda: {"next", "last", "added"} <= set(desk.started))


@pytest.mark.parametrize("words", ["cancel *", "hold nowhere"])
@at_desk(DECK, SOON)
async def test_what_is_answered_with_n_or_means_nothing_goes_on_with_no_run(desk: Desk, words: str) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    done = await desk.begin(*words.split(), keys="n\n").finish()
    assert done.code != 0
    await desk.until(lambda: not desk.runs)
    await desk.ends("first")
    await desk.later(60)
    assert desk.started == ["first"]


@at_desk(DECK, SOON)
async def test_a_start_beside_the_engine_tells_of_an_edit_that_waits(desk: Desk) -> None:
    await desk.start()
    assert "counts as it was before" not in (await desk.command("start")).err
    desk.write(EDITED)
    assert "counts as it was before: `gpudeck apply` takes it up" in (await desk.command("start")).err
    desk.write(DECK + "[[task\n")
    assert "the task file cannot be used, the deck goes on as it was: " in (await desk.command("start")).err


@pytest.mark.parametrize("content", [DECK + "[[task\n", ""], ids=["broken", "gone"])
@at_desk(DECK, SOON)
async def test_without_an_engine_a_task_is_held_although_its_file_cannot_be_read(desk: Desk, content: str) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    await desk.leave()
    if content:
        desk.write(content)
    else:
        (desk.folder / "tasks.toml").unlink()
    done = await desk.command("hold", "last", "-f", "tasks.toml")
    assert (done.code, "last (held)" in done.out) == (0, True), done


def test_an_engine_that_systemd_starts_anew_goes_on_with_the_file_as_it_was(deck: Commanded) -> None:
    deck.write(DECK)
    gate = deck.gate()
    assert deck.command("start").code == 0
    deck.until_state("first", "running")
    deck.kill_engine()
    deck.write(EDITED)
    gate.let(1)
    served = deck.follow("engine", "tasks.toml", "--service")
    deck.until_state("last", "succeeded")
    assert deck.command("stop").code == 0
    served.finish()
    assert deck.text("logs/next/attempt-1.log") == "old\n"
    assert not (deck.folder / "logs" / "more").exists()


@at_desk(DECK, {**SOON, "added": 0})
async def test_add_start_runs_what_it_adds_and_takes_no_edit_along(desk: Desk) -> None:
    await left_with_an_edit(desk)
    assert (await desk.command("add", "--start", "--name", "added", "--", "true")).code == 0
    await desk.ends("first")
    await desk.until(lambda: {"next", "added"} <= set(desk.started))
    await desk.settle()
    assert (desk.order("next").argv[-1], "more" in desk.started) == ("echo old", False)


@at_desk(DECK, {"first": 0, **SOON, "added": 0})
async def test_add_start_after_the_run_has_ended_starts_nothing_else(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(EDITED)
    assert (await desk.command("add", "--start", "--name", "added", "--", "true")).code == 0
    await desk.until(lambda: "added" in desk.started)
    await desk.settle()
    assert "more" not in desk.started


@at_desk(DECK, {"first": 0, **SOON, "added": 0})
async def test_add_after_a_retry_of_an_ended_run_starts_what_it_adds_alone(desk: Desk) -> None:
    assert await desk.run() == 0
    desk.write(EDITED)
    assert (await desk.command("retry", "first")).code == 0
    await desk.until(lambda: desk.started.count("first") == 2)
    assert (await desk.command("add", "--name", "added", "--", "true")).code == 0
    await desk.until(lambda: "added" in desk.started)
    await desk.settle()
    assert "more" not in desk.started
    await desk.command("start")
    await desk.until(lambda: "more" in desk.started)


@at_desk(DECK, SOON)
async def test_an_apply_that_is_refused_after_its_question_leaves_no_engine(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    assert (await desk.command("stop", "--tasks")).code == 0
    desk.write(EDITED)
    done = await saved_again_while_the_question_stood(desk)
    assert (done.code, "look at it anew" in done.err, "has ended again" in done.err) == (2, True, True)
    await desk.over()
    assert desk.started == ["first"]


HALTED = DECK.replace("[deck]", '[deck]\n    halt = "soon,fail=1"')


@at_desk(HALTED, {"first": 3, **SOON})
async def test_unpause_after_a_halt_goes_on_with_what_was_left_and_nothing_new(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(HALTED.replace("echo old", "echo new") + '[[task]]\nname = "more"\ncommand = "true"\n')
    done = await desk.command("unpause")
    assert "counts as it was before: `gpudeck apply` takes it up" in done.err
    await desk.until(lambda: {"next", "last"} <= set(desk.started))
    await desk.settle()
    assert (desk.order("next").argv[-1], "more" in desk.started) == ("echo old", False)


@at_desk(DECK, SOON)
async def test_without_an_engine_an_unfinished_run_is_shown_with_the_file_as_it_was_and_verbs_mean_that(
    desk: Desk,
) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    assert (await desk.command("stop", "--tasks")).code == 0
    desk.write(DECK.replace('name = "last"', 'name = "other"').replace("echo old", "echo new"))
    shown = await desk.command("ls")
    assert ("last" in shown.out, "other" in shown.out) == (True, False)
    assert "counts as it was before" in shown.err
    assert "1 changed, not started" in (await desk.command("status")).out
    assert (await desk.command("hold", "last")).code == 0


@at_desk(DECK, SOON)
async def test_a_headless_start_tells_of_other_tasks_than_the_run_was_begun_with(desk: Desk) -> None:
    await desk.start("--only", "first")
    await desk.until_state("first", "running")
    await desk.leave()
    await desk.start(purpose="headless")
    await desk.until(
        lambda: "the run was begun with --only first, and goes on with all tasks" in desk.text("logs/deck.log")
    )


async def stopped_with_its_tasks(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    assert (await desk.command("stop", "--tasks")).code == 0


@at_desk(DECK, {})
async def test_a_retry_in_a_run_that_was_stopped_says_that_the_run_goes_on(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    await desk.ends("first", 3)
    await desk.until_state("next", "running")
    assert (await desk.command("stop", "--tasks")).code == 0
    assert "the run goes on with it: 2 tasks that waited can start, too" in (await desk.command("retry", "first")).err


@at_desk(DECK, SOON)
async def test_the_plan_of_an_apply_to_a_run_that_was_stopped_says_that_the_run_goes_on(desk: Desk) -> None:
    await stopped_with_its_tasks(desk)
    desk.write(EDITED)
    assert "the run goes on       first, last: what waits starts, too" in (await desk.command("apply", "--dry-run")).out


@at_desk(DECK, SOON)
async def test_a_deck_of_this_very_host_is_not_taken_over(desk: Desk) -> None:
    await stopped_with_its_tasks(desk)
    done = await desk.command("takeover", "-y")
    assert (done.code, "nothing to take over" in done.err, desk.engines) == (0, True, 1)


@at_desk(HALTED, {"first": 3, **SOON})
async def test_what_is_noted_for_a_halted_deck_names_unpause(desk: Desk) -> None:
    assert await desk.run() == 1
    assert "`gpudeck unpause` goes on" in (await desk.command("hold", "last")).err


@at_desk(DECK, SOON)
async def test_an_addition_that_is_no_longer_in_the_file_takes_up_no_edit(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("first", "running")
    desk.write(EDITED)
    await desk.request("apply", add=["vanished"])
    await desk.leave()
    await desk.start(purpose="resume")
    assert "more" not in await desk.rows()


@at_desk(DECK, SOON)
async def test_what_an_edit_takes_out_is_not_named_among_what_goes_on(desk: Desk) -> None:
    await stopped_with_its_tasks(desk)
    desk.write(DECK.replace('name = "last"', 'name = "least"'))
    said = (await desk.command("apply", "--dry-run")).out
    assert "gone, not started     last: they do not start" in said
    assert "the run goes on       first, next: what waits starts, too" in said
