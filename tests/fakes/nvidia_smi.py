"""Plays nvidia-smi over the NVML double, as a driver of 2022 has it: `--query-gpu=…`, `--query-compute-apps=…`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FIELDS = {
    "index": "", "driver_version": "", "uuid": "uuid", "name": "name", "pci.bus_id": "bus", "memory.total": "total",
    "memory.reserved": "reserved", "memory.used": "used", "utilization.gpu": "util", "temperature.gpu": "temp",
    "power.draw": "power", "enforced.power.limit": "limit", "clocks.sm": "sm", "clocks.mem": "memclock",
    "clocks.max.sm": "smmax", "clocks.max.mem": "memclockmax", "fan.speed": "fan",
}  # fmt: skip
REASONS = {
    "hw_thermal_slowdown": 0x40, "sw_thermal_slowdown": 0x20, "hw_power_brake_slowdown": 0x80, "sw_power_cap": 0x04,
    "hw_slowdown": 0x08, "sync_boost": 0x10, "applications_clocks_setting": 0x02,
}  # fmt: skip
_OLD = "clocks_throttle_reasons."


def install(folder: Path) -> None:
    """A program `nvidia-smi` in *folder*, for PATH."""
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} "$@"\n')
    program.chmod(0o755)


def main(options: dict[str, str]) -> int:
    lines = [line.split(" ", 1) for line in Path(os.environ["GPUDECK_NVML_DOUBLE"]).read_text().splitlines()]
    box = dict(lines)
    if "--query-compute-apps" in options:
        for key, value in lines:
            if key.endswith(".process"):
                pid, mib, _ = value.split()
                print(f"{box[key.replace('process', 'uuid')]}, {pid}, {mib}")
        return 0
    asked = options["--query-gpu"].split(",")
    for name in asked:
        if name not in FIELDS and name.removeprefix(_OLD) not in REASONS:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    for card in range(int(box["count"])):
        print(", ".join(_cell(box, card, name) for name in asked))
    return 0


def _cell(box: dict[str, str], card: int, name: str) -> str:
    if name.startswith(_OLD):
        bits = int(box[f"gpu.{card}.throttle"])
        return "Active" if bits & REASONS[name.removeprefix(_OLD)] else "Not Active"
    if not FIELDS[name]:
        return box["driver"] if name == "driver_version" else str(card)
    value = box.get(f"gpu.{card}.{FIELDS[name]}", "[N/A]")
    return f"{int(value) / 1000:.2f}" if FIELDS[name] in ("power", "limit") and value.isdigit() else value


if __name__ == "__main__":
    words = (word.partition("=") for word in sys.argv[1:])
    raise SystemExit(main({name: value for name, _, value in words}))
