"""What a key asks of the engine, of which task, and what is asked of the user first: the screen over a picture."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from textual.events import Key
from textual.widgets import Button

from tests.fakes.snapshot_deck import ROWS, head, row
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import SMALL, SnapshotRig, snapshot_of, whole
from tests.inside.tui import Choice, Config, Dashboard, TaskTable

MID_RUN = whole(ROWS, head(), EIGHT)
PAUSED = "the deck is paused: nothing starts until `gpudeck unpause`"
SPENT = "the budget is used up: nothing starts until the file gives more and `gpudeck apply` takes that up"
FAILED, RUNNING, QUEUED, HELD = "train-sym-0.5", "train-asym-0.125", "train-both-0.625", "distill-ddp"


def table_of(rig: SnapshotRig) -> TaskTable:
    return rig.app.screen_stack[1].query_one(TaskTable)


def go_to(rig: SnapshotRig, name: str) -> None:
    table_of(rig).go_to(name)


def questions(rig: SnapshotRig) -> int:
    return sum(isinstance(screen, Choice) for screen in rig.app.screen_stack)


async def asked(rig: SnapshotRig, key: str) -> None:
    await rig.press(key)
    await rig.until_on(Choice)


async def test_each_key_asks_for_what_it_says_of_the_task_under_the_cursor() -> None:
    async with snapshot_of(MID_RUN) as rig:
        for name, keys, op, args in (
            (FAILED, ("r",), "retry", {"tasks": [FAILED]}),
            (QUEUED, ("c",), "cancel", {"tasks": [QUEUED]}),
            (RUNNING, ("c", "y"), "cancel", {"tasks": [RUNNING]}),
            (RUNNING, ("c", "K"), "kill", {"tasks": [RUNNING]}),
            (RUNNING, ("K", "y"), "kill", {"tasks": [RUNNING]}),
            (RUNNING, ("H",), "hold", {"tasks": [RUNNING]}),
            (HELD, ("H",), "release", {"tasks": [HELD]}),
            (QUEUED, ("plus",), "priority", {"tasks": [QUEUED], "value": 6}),
            (QUEUED, ("equals_sign",), "priority", {"tasks": [QUEUED], "value": 7}),
            (QUEUED, ("minus",), "priority", {"tasks": [QUEUED], "value": 6}),
            (QUEUED, ("P", "p"), "pause", {}),
            (QUEUED, ("P", "P"), "pause", {}),
            (QUEUED, ("Q", "e"), "stop", {"by": "Q on the screen"}),
            (QUEUED, ("Q", "t"), "stop", {"tasks": True, "by": "Q on the screen"}),
        ):
            go_to(rig, name)
            assert await rig.asks(*keys) == [(op, args)], keys
            assert isinstance(rig.app.screen, Dashboard), keys
        await rig.press("tab")
        for keys, verb in ((("D",), "drain"), (("T", "t"), "take")):
            assert await rig.asks(*keys) == [("gpu", {"verb": verb, "gpus": ["GPU-0"]})], keys


async def test_keys_typed_in_one_burst_act_on_the_gpu_that_was_under_the_cursor() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await rig.press("tab")
        for key in ("D", "j"):
            rig.app.post_message(Key(key, key))
        await rig.until(lambda: bool(rig.client.asked), "the engine is asked")
        assert rig.client.asked == [("gpu", {"verb": "drain", "gpus": ["GPU-0"]})]


async def test_each_press_of_plus_counts_however_fast_they_come() -> None:
    async with snapshot_of(MID_RUN) as rig:
        go_to(rig, QUEUED)
        for _ in range(3):
            rig.app.post_message(Key("plus", "+"))
        await rig.until(lambda: len(rig.client.asked) == 3, "three requests")
        assert [args["value"] for _, args in rig.client.asked] == [6, 7, 8]
        go_to(rig, RUNNING)
        assert (await rig.asks("minus"))[0][1]["tasks"] == [RUNNING]


async def test_undo_takes_back_what_was_asked_for_just_before_it() -> None:
    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    async with snapshot_of(
        MID_RUN, answers={"hold": lambda **_: answered, "undo": {"text": "", "verb": "hold"}}
    ) as rig:
        go_to(rig, RUNNING)
        rig.app.post_message(Key("H", "H"))
        rig.app.post_message(Key("u", "u"))
        await rig.until(lambda: rig.client.asked, "the hold")
        answered.set_result({"undo": "7"})
        await rig.until(lambda: len(rig.client.asked) == 2, "the undo")
        assert rig.client.asked[1] == ("undo", {"undo": "7"})


async def test_what_was_done_last_is_taken_back_first_and_then_there_is_nothing() -> None:
    numbers = iter(("7", "8"))

    def done(**_: Any) -> dict[str, str]:
        return {"undo": next(numbers)}

    answers = {"hold": done, "priority": done, "undo": {"text": "taken back", "verb": "hold"}}
    async with snapshot_of(MID_RUN, answers=answers) as rig:
        go_to(rig, RUNNING)
        await rig.asks("H")
        await rig.until_seen("u takes it back")
        await rig.asks("plus")
        assert [await rig.asks("u") for _ in range(3)] == [[("undo", {"undo": "8"})], [("undo", {"undo": "7"})], []]
        await rig.until_seen("nothing to take back")


async def test_acts_are_for_the_marked_tasks_that_are_shown() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await rig.press("A", "K")
        await rig.until_seen("Kill 7 tasks at once?")
        await rig.press("escape")
        await rig.types("slash", "state:failed")
        await rig.press("enter")
        assert await rig.asks("r") == [("retry", {"tasks": [FAILED, "train-sym-0.625"]})]


async def test_marks_go_from_what_was_retried_and_stay_on_the_others() -> None:
    async with snapshot_of(MID_RUN, answers={"retry": {"tasks": ["bad"]}}) as rig:
        rows = [row(0, "bad", "failed", attempt=1), row(1, "other"), row(2, "fine", "succeeded", attempt=1)]
        await rig.brings(reset=True, whole=True, rows={each.index: each for each in rows}, total=3)
        await rig.press("A", "r")
        await rig.until_seen("bad runs again")
        assert table_of(rig).marked == {"other", "fine"}


@pytest.mark.parametrize(
    ("answer", "said", "unsaid"),
    [
        ({"tasks": [FAILED], "note": PAUSED, "undo": "7"}, "paused: nothing starts until P; u takes", "left out"),
        ({"tasks": [FAILED], "note": SPENT, "undo": "7"}, "until the file gives more and a takes that up", "paused"),
        ({"tasks": [], "left": {FAILED: "is left out of this run"}}, f"{FAILED} is left out of this run", "runs again"),
    ],
    ids=["paused", "no budget", "left out"],
)
async def test_a_retry_that_starts_nothing_says_why(answer: dict[str, Any], said: str, unsaid: str) -> None:
    async with snapshot_of(MID_RUN, answers={"retry": answer}) as rig:
        go_to(rig, FAILED)
        await rig.press("r")
        await rig.until_told(said)
        assert unsaid not in rig.text()


async def test_what_a_key_cannot_do_is_said_and_not_asked_for() -> None:
    async with snapshot_of(MID_RUN) as rig:
        for name, key, said in (
            (RUNNING, "r", f"{RUNNING} is running"),
            (FAILED, "H", "only what has not ended can be held"),
            (FAILED, "K", "only what has not ended can be killed"),
            (FAILED, "ctrl+z", "there is no shell to go back to"),
            (FAILED, "ctrl+c", "q leaves, and stops nothing; c cancels a task"),
            (FAILED, "E", "this terminal cannot be lent"),
        ):
            go_to(rig, name)
            assert await rig.asks(key) == [], key
            await rig.until_told(said)
        assert not questions(rig)


async def test_a_task_file_that_has_not_changed_is_asked_for_and_said_to_be_the_same() -> None:
    async with snapshot_of(MID_RUN, answers={"apply": {"changes": 0}}) as rig:
        assert await rig.asks("a") == [("apply", {"dry_run": True})]
        await rig.until_told("the task file has not changed")
        assert not questions(rig)


async def test_a_broken_task_file_is_told_and_not_applied() -> None:
    async with snapshot_of(whole(ROWS, head(file_problem="tasks.toml:3: bogus", file_plan="1 added"), EIGHT)) as rig:
        assert await rig.asks("a") == []
        await rig.until_told("the deck goes on as it was: tasks.toml:3: bogus")
        assert not questions(rig)
        assert "has not changed" not in rig.text()


async def test_a_paused_deck_goes_on_without_a_question() -> None:
    async with snapshot_of(whole(ROWS, head(paused="by ada"), EIGHT)) as rig:
        assert await rig.asks("P") == [("unpause", {})]


async def test_a_key_of_the_configuration_takes_the_place_of_the_usual_one() -> None:
    async with snapshot_of(MID_RUN, config=Config(keys={"hold": "f7"})) as rig:
        go_to(rig, RUNNING)
        assert await rig.asks("H") == []
        assert await rig.asks("f7") == [("hold", {"tasks": [RUNNING]})]


async def test_what_is_wrong_with_the_configuration_is_told_at_the_start() -> None:
    async with snapshot_of(MID_RUN, config=Config(problems=("no such theme here",))) as rig:
        await rig.until_told("no such theme here")


# -- questions --------------------------------------------------------------------------------------------------------


async def test_a_key_that_is_pressed_twice_ends_nothing_and_enter_is_harmless() -> None:
    async with snapshot_of(MID_RUN) as rig:
        go_to(rig, RUNNING)
        for key in ("c", "K", "Q"):
            assert await rig.asks(key, key, key) == []
            assert questions(rig) == 1
            await rig.press("escape")
            await rig.until_on(Dashboard)
            assert await rig.asks(key, "enter") == []
            await rig.until_on(Dashboard)


async def test_an_answer_that_comes_as_a_page_opens_over_the_question_closes_neither() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await asked(rig, "Q")
        question = rig.app.screen
        rig.app.do_help()
        question.query(Button).last().press()
        await rig.pilot.pause()
        assert questions(rig) == 1
        assert rig.app.screen is not question
        await rig.press("escape")
        await rig.until_on(Choice)
        await rig.press("escape")
        await rig.until_on(Dashboard)


async def test_a_cancel_of_what_ran_is_named_and_no_older_act_is_taken_back_in_its_place() -> None:
    answers = {"hold": {"undo": "7"}, "cancel": {"tasks": [RUNNING], "undo": ""}, "undo": {"text": "taken back"}}
    async with snapshot_of(MID_RUN, answers=answers) as rig:
        go_to(rig, RUNNING)
        await rig.asks("H")
        await rig.asks("c", "y")
        assert await rig.asks("u") == []
        await rig.until_seen("this cannot be taken back")
        assert await rig.asks("u") == [("undo", {"undo": "7"})]


async def test_every_answer_and_its_key_can_be_read_at_80_columns() -> None:
    async with snapshot_of(MID_RUN, SMALL) as rig:
        go_to(rig, RUNNING)
        for key in ("c", "K", "Q", "R", "P"):
            await asked(rig, key)
            await rig.pilot.pause()
            labels = [str(button.label).strip() for button in rig.app.screen.query(Button)]
            assert len(labels) > 1
            assert [label for label in labels if label not in rig.text()] == []
            await rig.press("escape")


async def test_a_toast_lies_over_no_question() -> None:
    async with snapshot_of(MID_RUN) as rig:
        go_to(rig, RUNNING)
        await rig.press("s")
        await rig.until_seen("sorted by")
        await asked(rig, "c")
        await rig.until(lambda: "sorted by" not in rig.text(), "the toast goes")
        await rig.press("escape")
        await rig.until_seen("sorted by")


async def test_a_key_that_comes_as_the_cursor_jumps_to_another_task_does_nothing() -> None:
    async with snapshot_of(MID_RUN) as rig:
        await rig.types("slash", "state:failed")
        await rig.press("enter", "g")
        await rig.brings(rows={4: msgspec.structs.replace(ROWS[4], state="running")})
        assert table_of(rig).cursor_name == "train-sym-0.625"
        assert await rig.asks("r") == []
        await rig.until_told("the cursor has just come to train-sym-0.625: nothing was done")
        assert await rig.asks("k", "r") == [("retry", {"tasks": ["train-sym-0.625"]})]
