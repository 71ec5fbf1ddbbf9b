"""Eight cards with what eight cards come to, and what they read over the last minutes."""

from __future__ import annotations

import math
from typing import Any

from gpudeck.engine.protocol.wire import GpuMemory, GpuProcess, GpuRow
from gpudeck.tui.widgets.gpu_panes import GpuPanes
from tests.fakes.snapshot_rig import NOW_S, STEADY_S

BUSY: dict[str, Any] = {
    "name": "NVIDIA A40", "util_percent": 97, "used_mib": 41_370, "total_mib": 46_068,
    "memory": GpuMemory(deck_mib=40_900, unexplained_mib=470), "temperature_c": 71, "slowdown_c": 98, "power_w": 287.4,
    "power_limit_w": 300.0, "sm_clock_mhz": 1695, "sm_clock_max_mhz": 1740, "memory_clock_mhz": 7250,
    "memory_clock_max_mhz": 7251, "throttle": (), "fan_percent": 40,
}  # fmt: skip
IDLE: dict[str, Any] = {
    **BUSY, "util_percent": 0, "used_mib": 470, "memory": GpuMemory(unexplained_mib=470), "temperature_c": 34,
    "power_w": 22.1, "sm_clock_mhz": 210, "fan_percent": 0,
}  # fmt: skip
READINGS = tuple(
    name for name in BUSY if name not in ("name", "throttle", "memory")
)  # fmt: skip


def gpu(index: int, task: str = "", **more: Any) -> GpuRow:
    """A card that is busy with *task*, or idle."""
    values: dict[str, Any] = dict(BUSY if task else IDLE)
    if task:
        values |= {"tasks": (task,), "slot_tasks": (task,), "processes": (process(20_000 + index, task, 40_900),)}
    return GpuRow(index=index, uuid=f"GPU-{index}", pci_bus_id=f"0000:{0x3B + index:02x}:00.0", **(values | more))


def process(pid: int, task: str, used_mib: int | None, user: str = "ada") -> GpuProcess:
    return GpuProcess(pid=pid, task=task, used_mib=used_mib, user=user)


def silent(why: str) -> dict[str, Any]:
    """No reading, and why."""
    return {**dict.fromkeys(READINGS), "throttle": None, "memory": None, "missing": dict.fromkeys(READINGS, why)}


GANG = "finetune-vit-large-patch16-224-caltech101-asym-0.5-seed3"
EIGHT: tuple[GpuRow, ...] = (
    gpu(0, "train-asym-0.125"),
    gpu(1, "train-asym-0.25", util_percent=64, used_mib=21_400, memory=GpuMemory(deck_mib=20_900, unexplained_mib=500)),
    gpu(2, "train-asym-0.375", util_percent=3, used_mib=2048, memory=GpuMemory(deck_mib=1600, unexplained_mib=448)),
    gpu(3, "train-both-0.125", slots=3, tasks=("train-both-0.125", "train-both-0.25", "train-both-0.375"),
        slot_tasks=("train-both-0.125", "train-both-0.25", "train-both-0.375")),
    *(gpu(index, GANG, util_percent=100 - index) for index in range(4, 8)),
)  # fmt: skip

TROUBLED: tuple[GpuRow, ...] = (
    gpu(0, "train-asym-0.125", temperature_c=97, throttle=("hw thermal", "power"), sm_clock_mhz=990),
    gpu(1, "", used_mib=39_900, util_percent=88, note="alice, pid 4711, 31.0 GiB", note_kind="foreign",
        memory=GpuMemory(mine_mib=8000, others_mib=31_744, unexplained_mib=156),
        processes=(process(4711, "", 31_744, "alice"), process(901, "", 8000))),
    gpu(2, "train-asym-0.375", used_mib=44_900,
        memory=GpuMemory(deck_mib=20_000, mine_mib=8000, others_mib=16_000, unexplained_mib=900),
        note="alice joined GPU 2 at 02:14, pid 4711, 15.6 GiB", note_kind="joined",
        processes=(process(20_002, "train-asym-0.375", 20_000), process(901, "", 8000),
                   process(4711, "", 16_000, "alice"), process(77, "", None, ""))),
    gpu(3, **silent("GPU is lost"), lost="GPU is lost", note="lost (GPU is lost)", note_kind="lost"),
    gpu(4, **silent("no permission")),
    gpu(5, "train-both-0.125", **dict.fromkeys(("fan_percent", "power_w", "power_limit_w", "slowdown_c")),
        throttle=None, missing=dict.fromkeys(("fan_percent", "power_w", "power_limit_w", "throttle"), "not supported")),
    gpu(6, "train-both-0.25", stale_since=NOW_S - 95),
    gpu(7, note="quarantined: 3 tasks in a row failed fast", note_kind="quarantined", mark="",
        health=("2 uncorrected ECC errors since the driver was loaded",)),
)  # fmt: skip


def remember(panes: GpuPanes) -> None:
    """Ten minutes of waves, a gap in them, told before the panes show anything."""
    for second in range(600):
        at = STEADY_S - 600 + second
        if 450 <= second < 480:
            panes.history.interrupt(at)
            continue
        rows = [
            gpu(index, "x", util_percent=_wave(second, 7 + index), used_mib=46_068 * _wave(second, 60) // 100)
            for index in range(8)
        ]
        panes.history.take(rows, at)


def _wave(second: int, period_s: int) -> int:
    return round(50 + 48 * math.sin(second / period_s))
