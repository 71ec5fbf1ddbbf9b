"""GPUs as an engine tells them, for tests of what is drawn of them."""

from __future__ import annotations

from typing import Any

from gpudeck.engine.protocol.wire import GpuMemory, GpuRow

CALM: dict[str, Any] = {
    "name": "NVIDIA A40",
    "tasks": ("train-1",),
    "slot_tasks": ("train-1",),
    "util_percent": 90,
    "used_mib": 20_480,
    "total_mib": 40_960,
    "memory": GpuMemory(deck_mib=20_000, unexplained_mib=480),
    "temperature_c": 60,
    "slowdown_c": 98,
    "power_w": 287.4,
    "power_limit_w": 300.0,
    "sm_clock_mhz": 1695,
    "sm_clock_max_mhz": 1740,
    "memory_clock_mhz": 7250,
    "memory_clock_max_mhz": 7251,
    "throttle": (),
    "fan_percent": 40,
    "pci_bus_id": "0000:3b:00.0",
}
NOTHING: dict[str, Any] = {
    field: None for field in CALM if field not in ("name", "tasks", "slot_tasks", "pci_bus_id")
}  # fmt: skip
"""All readings are missing."""


def gpu(index: int = 0, **more: Any) -> GpuRow:
    """A busy A40 without a trouble."""
    return GpuRow(index=index, uuid=f"GPU-{index}", **(CALM | more))


def lost(index: int = 0) -> GpuRow:
    return gpu(index, **NOTHING, lost="GPU is lost", note="lost (GPU is lost)", note_kind="lost")


def gpus(count: int, **more: Any) -> tuple[GpuRow, ...]:
    return tuple(gpu(index, **more) for index in range(count))
