"""The screen over a deck whose tasks run on a cluster."""

from __future__ import annotations

import msgspec
from syrupy.assertion import SnapshotAssertion

from tests.fakes.snapshot_rig import LARGE, NOW_S, SMALL, Size, SnapshotRig, at, shown, snapshot_of, whole
from tests.fakes.snapshot_slurm import CLUSTER, PENDING, ROWS, RUNNING, slurm_head
from tests.fakes.snapshot_tasks import answer
from tests.inside.tui import Detail, Link, OpenTask

ANSWERS = {"show": answer(RUNNING, PENDING)}
DECK = whole(ROWS, slurm_head(), cluster=CLUSTER)


@at(SMALL, LARGE)
async def test_mid_run_with_the_cursor_on_a_pending_task(pictures: SnapshotAssertion, size: Size) -> None:
    async with snapshot_of(DECK, size) as rig:
        await rig.press(*["j"] * 6)
        await rig.until_seen("train-asym-0.25 · pending: begins ~14:05")
        assert await rig.still() == pictures


@at(SMALL)
def test_slurm_that_does_not_answer(pictures: SnapshotAssertion, size: Size) -> None:
    silent = msgspec.structs.replace(CLUSTER, problem="squeue: Unable to contact slurm controller", at=NOW_S - 300)
    assert shown(whole(ROWS, slurm_head(), cluster=silent), size) == pictures


@at(SMALL)
def test_without_an_engine(pictures: SnapshotAssertion, size: Size) -> None:
    link = Link("files", "no engine runs it", read_only=True, as_of=NOW_S - 5400)
    assert shown(whole(ROWS, slurm_head(), (), link), size) == pictures


def page_of(name: str, size: Size, *seen: str) -> str:
    async def steps(rig: SnapshotRig) -> None:
        rig.app.screen.post_message(OpenTask(name))
        await rig.until(lambda: isinstance(rig.app.screen, Detail), "the page is open")
        await rig.until_said(*seen)

    return shown(DECK, size, steps, answers=ANSWERS)


@at(SMALL)
def test_page_of_a_task_on_several_nodes(pictures: SnapshotAssertion, size: Size) -> None:
    assert page_of("finetune-vit-large-ddp", size, "attempt-2.sh", "gpu[06-07]") == pictures


@at(SMALL)
def test_page_of_a_pending_task(pictures: SnapshotAssertion, size: Size) -> None:
    assert page_of("train-asym-0.25", size, "attempt-1.sh", "begins ~14:05") == pictures
