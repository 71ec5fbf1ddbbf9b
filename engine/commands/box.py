"""`gpudeck gpus`: the GPUs of this box and who uses them."""

from __future__ import annotations

import os
import sys
import threading

from ..adapters.claims.names import claims_on
from ..adapters.nvml.probe import NvmlProbe
from ..adapters.simulated import SimulatedProbe
from ..command import Command
from ..errors import EngineUnavailableError, UsageError
from ..ports import GpuProbe
from ..sampler import sample_once
from .gpus_report import report

PATIENCE_S = 15.0
"""A driver that was not loaded, on a box with eight cards, takes seconds."""
QUIET_S = 2.0


def run(command: Command) -> int:
    """Print one reading. Raises EngineUnavailableError with NVML's words where the driver does not answer."""
    probe = _probe(command.given.get("gpus"))
    patience = threading.Timer(QUIET_S, _say_that_it_waits)
    patience.daemon = True
    patience.start()
    try:
        inventory = probe.discover()
    finally:
        patience.cancel()
    if inventory.error:
        raise EngineUnavailableError(inventory.error)
    readings = sample_once(probe, [gpu.uuid for gpu in inventory.gpus]) if inventory.gpus else ()
    if inventory.gpus and not readings:
        raise EngineUnavailableError("the driver gave no reading within 5 s")
    problems = probe.problems if isinstance(probe, NvmlProbe) else ()
    claims = claims_on([gpu.uuid for gpu in inventory.gpus], os.environ)
    print(report(inventory, readings, as_json=command.flag("json"), problems=problems, claims=claims))
    return 0


def _say_that_it_waits() -> None:
    print(f"the NVIDIA driver has not answered yet; waiting up to {PATIENCE_S:g} s", file=sys.stderr)


def _probe(asked: str | None) -> GpuProbe:
    if asked is None:
        return NvmlProbe(discover_timeout_s=PATIENCE_S)
    kind, _, count = asked.partition(":")
    if kind != "sim" or not count.isdigit() or not int(count):
        raise UsageError(f"gpus --gpus takes sim:N, got {asked}")
    return SimulatedProbe(int(count))
