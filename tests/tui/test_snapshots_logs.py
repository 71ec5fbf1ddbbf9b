"""Logs over the whole screen as they look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import MIDDLE, SMALL, Size, SnapshotRig, Steps, at, shown, whole
from tests.fakes.snapshot_tasks import (
    FAILED,
    NEVER,
    RUNNING,
    answer,
    attempt,
    lasting,
    paths,
    task,
    training,
    write,
    write_failed,
    write_running,
)  # fmt: skip
from tests.inside.tui import LogScreen, OpenLogs

STARTING = task("train-both-0.125", "starting", running=lasting("train-both-0.125", 1, 4, (3,)))
DONE = task(
    "train-sym-0.125", "succeeded", attempts=(attempt("train-sym-0.125", 1, "", "ok", 5025, (0,), exit_code=0),)
)
ANSWERS = {"show": answer(FAILED, RUNNING, NEVER, STARTING, DONE)}


def logs_of(names: Sequence[str], size: Size, seen: Sequence[str], steps: Steps | None = None) -> str:
    write_failed()
    write_running()
    write(paths("train-sym-0.125", 1)["log"], training(20) + "saved out/train-sym-0.125.pt\n")
    write(paths("train-both-0.125", 1)["log"], "")

    async def whole_way(rig: SnapshotRig) -> None:
        rig.app.screen.post_message(OpenLogs(tuple(names)))
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "the logs are open")
        await rig.until_seen(*seen)
        if steps is not None:
            await steps(rig)

    return shown(whole(ROWS, head(), EIGHT), size, whole_way, answers=ANSWERS)


@at(SMALL)
def test_one_that_runs(pictures: SnapshotAssertion, size: Size) -> None:
    assert logs_of(["train-asym-0.125"], size, ["epoch 12/20 loss"]) == pictures


@at(SMALL)
def test_one_that_failed(pictures: SnapshotAssertion, size: Size) -> None:
    assert logs_of(["train-sym-0.5"], size, ["OutOfMemoryError"]) == pictures


@at(MIDDLE)
def test_four(pictures: SnapshotAssertion, size: Size) -> None:
    names = ["train-asym-0.125", "train-sym-0.5", "train-sym-0.125", "train-both-0.125"]
    assert logs_of(names, size, ["epoch 12/20", "saved out", "OutOf"]) == pictures


@at(SMALL)
def test_one_that_never_ran(pictures: SnapshotAssertion, size: Size) -> None:
    assert logs_of(["prepare"], size, ["has not run"]) == pictures


@at(SMALL)
def test_log_that_is_gone(pictures: SnapshotAssertion, size: Size) -> None:
    async def steps(rig: SnapshotRig) -> None:
        await rig.press("left_square_bracket")
        await rig.until_seen("3 attempts")

    def without_second() -> str:
        return logs_of(["train-sym-0.5"], size, ["OutOfMemoryError"], forget)

    async def forget(rig: SnapshotRig) -> None:
        for name in ("log", "err"):
            Path(paths("train-sym-0.5", 2)[name]).unlink()
        await steps(rig)

    assert without_second() == pictures


@at(SMALL)
def test_hits_of_a_search(pictures: SnapshotAssertion, size: Size) -> None:
    async def steps(rig: SnapshotRig) -> None:
        await rig.types("slash", "loss=0.")
        await rig.press("enter")
        await rig.until_seen("/7")
        await rig.press("N")
        await rig.until_seen("6/7" if size[1] == 24 else "7/7")

    assert logs_of(["train-asym-0.125"], size, ["epoch 12/20 loss"], steps) == pictures


@at(SMALL)
def test_search_that_is_being_typed(pictures: SnapshotAssertion, size: Size) -> None:
    async def steps(rig: SnapshotRig) -> None:
        await rig.types("slash", "loss")

    assert logs_of(["train-asym-0.125"], size, ["epoch 12/20 loss"], steps) == pictures


@at(SMALL)
def test_wrapped(pictures: SnapshotAssertion, size: Size) -> None:
    async def steps(rig: SnapshotRig) -> None:
        await rig.press("w")
        await rig.until_seen("OutOfMemoryError")

    assert logs_of(["train-sym-0.5"], size, ["OutOfMemoryError"], steps) == pictures
