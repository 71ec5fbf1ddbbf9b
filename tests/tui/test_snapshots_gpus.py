"""GPU panes as they look, on the dashboard, and who is on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from syrupy.assertion import SnapshotAssertion

from gpudeck.engine.protocol.wire import GpuRow
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import TROUBLED, gpu, process, remember
from tests.fakes.snapshot_rig import MIDDLE, SMALL, Size, SnapshotRig, at, shown, whole
from tests.inside.tui import GpuProcesses

ONE_TASK = ROWS[6:7]
COMMANDS = {
    20_002: "/home/ada/noise/.venv/bin/python train.py --root /data/caltech-101 --noise asym --rate 0.375 --epochs 20",
    901: "/usr/bin/python3 -m jupyter lab --no-browser",
    4711: "cannot be seen from here",
}


async def to_the_gpus(rig: SnapshotRig) -> None:
    await rig.press("tab")


def with_gpus(*gpus: GpuRow, size: Size, **more: bool) -> str:
    rows = [msgspec.structs.replace(each, index=at, uuid=f"GPU-{at}") for at, each in enumerate(gpus)]
    return shown(whole(ONE_TASK, head(ONE_TASK, **more), tuple(rows)), size, to_the_gpus, before=remember)


@at(SMALL)
def test_eight_with_troubles_folded(pictures: SnapshotAssertion, size: Size) -> None:
    assert with_gpus(*TROUBLED, size=size) == pictures


@at(MIDDLE)
def test_hot_and_shared(pictures: SnapshotAssertion, size: Size) -> None:
    """Throttled; others' memory; three owners of memory, and somebody who has joined."""
    assert with_gpus(*TROUBLED[:3], size=size) == pictures


@at(MIDDLE)
def test_lost_forbidden_and_unsupported(pictures: SnapshotAssertion, size: Size) -> None:
    assert with_gpus(*TROUBLED[3:6], size=size) == pictures


@at(MIDDLE)
def test_stale_and_quarantined(pictures: SnapshotAssertion, size: Size) -> None:
    assert with_gpus(*TROUBLED[6:], size=size) == pictures


@at(SMALL)
def test_drained_taken_and_quiet(pictures: SnapshotAssertion, size: Size) -> None:
    rows = (
        gpu(0, "train-asym-0.125", mark="drain", note="drained", note_kind="drained"),
        gpu(1, mark="take"),
        gpu(2, note="others left 20 s ago", note_kind="quiet"),
    )
    assert with_gpus(*rows, size=size) == pictures


@at(SMALL)
def test_simulated(pictures: SnapshotAssertion, size: Size) -> None:
    rows = (
        gpu(0, "train-asym-0.125", simulated=True, name="simulated", processes=(process(0, "train-asym-0.125", 900),)),
        gpu(1, simulated=True, name="simulated"),
    )
    assert with_gpus(*rows, size=size, simulated=True) == pictures


@at(SMALL)
def test_one_with_several_slots(pictures: SnapshotAssertion, size: Size) -> None:
    held = ("train-both-0.125", "", "train-both-0.375")
    assert with_gpus(gpu(0, "x", slots=3, tasks=held[::2], slot_tasks=held), size=size) == pictures


@at(SMALL)
def test_part_of_a_card(pictures: SnapshotAssertion, size: Size) -> None:
    part = gpu(0, "train-asym-0.125", name="NVIDIA A100-SXM4-80GB MIG 3g.40gb", mig=True, util_percent=None,
               missing={"util_percent": "not supported"})  # fmt: skip
    assert with_gpus(part, size=size) == pictures


# -- who is on it -----------------------------------------------------------------------------------------------------


def look_up(pids: Sequence[int]) -> dict[int, str]:
    return {pid: COMMANDS.get(pid, "gone") for pid in pids}


def processes_of(row: GpuRow, size: Size, seen: str) -> str:
    async def steps(rig: SnapshotRig) -> None:
        rig.app.push_screen(GpuProcesses(row, look_up))
        await rig.until_seen(seen)

    return shown(whole(ONE_TASK, head(ONE_TASK), (row,)), size, steps)


@at(SMALL)
def test_processes(pictures: SnapshotAssertion, size: Size) -> None:
    assert processes_of(TROUBLED[2], size, " gone") == pictures
