"""`gpudeck gpus`: the GPUs of this box and who uses them."""

from __future__ import annotations

import threading

from .adapters.nvml import NvmlProbe
from .adapters.simulated import SimulatedProbe
from .command import Command
from .core.inputs import GpuReading
from .errors import EngineUnavailableError, UsageError
from .gpus_report import report
from .ports import GpuProbe

READ_TIMEOUT_S = 5.0


def show_gpus(command: Command) -> int:
    """Print one reading. Raises EngineUnavailableError with NVML's words where the driver does not answer."""
    probe = _probe(command.given.get("gpus"))
    inventory = probe.discover()
    if inventory.error:
        raise EngineUnavailableError(inventory.error)
    readings: list[GpuReading] = []
    if inventory.gpus:
        arrived = threading.Event()

        def take(found: tuple[GpuReading, ...]) -> None:
            readings.extend(found if not arrived.is_set() else ())
            arrived.set()

        probe.start([gpu.uuid for gpu in inventory.gpus], take, period_s=60.0)
        if not arrived.wait(READ_TIMEOUT_S):
            raise EngineUnavailableError(f"the driver gave no reading within {READ_TIMEOUT_S:.0f} s")
        probe.stop()
    problems = probe.problems if isinstance(probe, NvmlProbe) else ()
    print(report(inventory, readings, as_json=command.flag("json"), problems=problems))
    return 0


def _probe(asked: str | None) -> GpuProbe:
    if asked is None:
        return NvmlProbe()
    kind, _, count = asked.partition(":")
    if kind != "sim" or not count.isdigit() or not int(count):
        raise UsageError(f"gpudeck gpus --gpus takes sim:N, got {asked}")
    return SimulatedProbe(int(count))
