"""R, v: a task runs again with other values, which are typed and looked at before."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key

from gpudeck.engine.errors import UsageError
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import SnapshotRig, snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, answer
from tests.inside.tui import Choice, TaskTable, ValuesForm, doing

MID_RUN = whole(ROWS, head(), EIGHT)
NAME = FAILED["name"]
CHANGE = {
    "before": ["train.py", "--rate", "0.5"],
    "after": ["train.py", "--rate", "0.7"],
    "changes": ["--rate 0.7"],
}


def retried(*, dry_run: bool = False, **_: Any) -> dict[str, Any]:
    return {"given": {NAME: CHANGE}, "tasks": [NAME]} if dry_run else {"tasks": [NAME], "undo": ""}


async def opened(rig: SnapshotRig) -> None:
    rig.app.screen.query_one(TaskTable).go_to(NAME)
    await rig.press("R", "v")
    await rig.until_on(ValuesForm)


async def test_the_line_has_what_the_task_has_and_the_new_command_is_shown_before_it_runs() -> None:
    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED), "retry": retried}) as rig:
        await opened(rig)
        await rig.until_seen("noise=sym rate=0.5 --env NCCL_DEBUG=INFO")
        await rig.types("ctrl+u", "rate=0.7")
        await rig.press("enter")
        await rig.until_on(Choice)
        await rig.until_seen("--rate 0.5", "now", "--rate 0.7")
        wanted = {"tasks": [NAME], "set": {"rate": "0.7"}, "env": {}}
        assert rig.client.asked == [("retry", {**wanted, "dry_run": True})]
        await rig.press("y")
        await rig.until_told(f"{NAME} runs again")
        assert rig.client.asked[1:] == [("retry", wanted)]


def test_a_retry_that_changes_only_the_environment_says_nothing_of_values() -> None:
    given = {NAME: {**CHANGE, "after": CHANGE["before"], "changes": []}}
    typed = {"set": {}, "env": {"X": "1"}}
    assert doing.with_values([NAME], "--env X=1", typed, given).lines == ("environment  X=1",)
    assert doing.with_values([NAME], "", typed | {"env": {}}, given).lines == (f"{NAME}  has these values already",)


async def test_variables_of_the_file_are_shown_with_their_values() -> None:
    with_vars = {**FAILED, "vars": {"base": "3", "data": "/data/cifar"}}
    async with snapshot_of(MID_RUN, answers={"show": answer(with_vars), "retry": retried}) as rig:
        await opened(rig)
        await rig.until_seen("[vars] of the file: base=3 data=/data/cifar")


async def test_what_comes_in_one_burst_is_taken_in_its_order() -> None:
    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED), "retry": retried}) as rig:
        await opened(rig)
        for key in ("ctrl+u", *"rates=0.7", "home", "right", "right", "right", "right", "delete", "enter"):
            rig.app.post_message(
                Key({"=": "equals_sign", ".": "full_stop"}.get(key, key), key if len(key) == 1 else None)
            )
        await rig.until_on(Choice)
        assert rig.client.asked == [("retry", {"tasks": [NAME], "set": {"rate": "0.7"}, "env": {}, "dry_run": True})]


async def test_a_mistake_is_said_in_the_form_which_keeps_what_was_typed() -> None:
    def answered(*, set: dict[str, str], **_: Any) -> dict[str, Any]:  # noqa: A002 as the protocol has it
        if "batch" in set:
            raise UsageError(f"{NAME}: the retry changes batch, which is in neither matrix nor [vars]")
        return {"given": {NAME: CHANGE}, "tasks": [NAME]}

    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED), "retry": answered}) as rig:
        await opened(rig)
        await rig.types("ctrl+u", "rate=0.7 batch")
        await rig.press("enter")
        await rig.until_seen("rate=0.7 batch", "batch: write NAME=VALUE without blanks, or --env NAME=VALUE")
        await rig.types("end", "=3")
        await rig.press("enter")
        await rig.until_seen("rate=0.7 batch=3", "the retry changes batch, which is in neither matrix nor [vars]")
        await rig.press(*["backspace"] * len(" batch=3"), "enter")
        await rig.until_on(Choice)
        await rig.until_seen("--rate 0.7")


async def test_who_does_not_like_the_new_command_goes_on_typing() -> None:
    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED), "retry": retried}) as rig:
        await opened(rig)
        await rig.types("ctrl+u", "rate=0.7")
        await rig.press("enter")
        await rig.until_on(Choice)
        await rig.press("escape")
        await rig.until_on(ValuesForm)
        await rig.until_seen("rate=0.7")


async def test_escape_leaves_all_as_it_is() -> None:
    async with snapshot_of(MID_RUN, answers={"show": answer(FAILED), "retry": retried}) as rig:
        await opened(rig)
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen.query(TaskTable), "the table")
        await rig.until_told("nothing was done")
        assert rig.client.asked == []


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("bs=32 lr=0.1", {"set": {"bs": "32", "lr": "0.1"}, "env": {}}),
        ("'note=two words' --env X=1 a=", {"set": {"note": "two words", "a": ""}, "env": {"X": "1"}}),
        ("", {"set": {}, "env": {}}),
    ],
)
def test_what_is_typed_is_read_as_a_shell_reads_it(text: str, typed: dict[str, Any]) -> None:
    assert doing.values_typed(text) == typed


def test_of_several_tasks_the_line_has_what_they_share() -> None:
    tasks = [
        {"params": {"bs": "32", "seed": "1"}, "given": {"lr": "3"}, "retried_env": {"X": "1"}},
        {"params": {"bs": "32", "seed": "2"}, "given": {"lr": "3"}, "retried_env": {}},
    ]
    assert doing.values_now(tasks) == "bs=32 lr=3"
