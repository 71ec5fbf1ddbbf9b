"""`gpudeck gpus`: the GPUs of this box and who uses them."""

from __future__ import annotations

import os

from ..adapters.claims.look import claims_on
from ..adapters.nvml.probe import NvmlProbe
from ..adapters.simulated import SimulatedProbe
from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..ports import GpuProbe
from ..sampler import sample_once
from .gpus_report import report


def run(command: Command) -> int:
    """Print one reading. Raises EngineUnavailableError with NVML's words where the driver does not answer."""
    probe = _probe(command.given.get("gpus"))
    inventory = probe.discover()
    if inventory.error:
        raise EngineUnavailableError(inventory.error)
    readings = sample_once(probe, [gpu.uuid for gpu in inventory.gpus]) if inventory.gpus else ()
    if inventory.gpus and not readings:
        raise EngineUnavailableError("the driver gave no reading within 5 s")
    problems = probe.problems if isinstance(probe, NvmlProbe) else ()
    claims = claims_on([gpu.uuid for gpu in inventory.gpus], os.environ)
    print(report(inventory, readings, as_json=command.flag("json"), problems=problems, claims=claims))
    return 0


def _probe(asked: str | None) -> GpuProbe:
    if asked is None:
        return NvmlProbe()
    kind, _, count = asked.partition(":")
    if kind != "sim" or not count.isdigit() or not int(count):
        raise UsageError(f"gpus --gpus takes sim:N, got {asked}")
    return SimulatedProbe(int(count))
