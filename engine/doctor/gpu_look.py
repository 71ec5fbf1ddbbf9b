"""What driver and cards say now, each asked with a time limit: one that hangs hides no other."""

from __future__ import annotations

import os
import queue
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..adapters.claims.look import Claim, claims_on
from ..adapters.nvml.checkup import Card, look_at_cards
from ..adapters.nvml.probe import NvmlProbe
from ..adapters.simulated import SimulatedProbe
from ..core.readings import GpuReading
from ..core.spec import DeckSettings
from ..ports import GpuProbe, Inventory, Telemetry
from .child import Ended, run

_DISCOVER_S = 15.0
_READING_S = 5.0
_SMI_S = 10.0


@dataclass(frozen=True, slots=True)
class Gpus:
    """Everything by UUID that can be known of the box's GPUs. A GPU without a reading gave none in time."""

    inventory: Inventory
    problems: tuple[str, ...] = ()
    """A line for each GPU that exists and could not be listed."""
    readings: Mapping[str, GpuReading] = field(default_factory=dict[str, GpuReading])
    telemetry: Mapping[str, Telemetry] = field(default_factory=dict[str, Telemetry])
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])
    """Which deck has which."""
    cards: tuple[Card, ...] = ()
    smi: Ended | None = None
    """`nvidia-smi -L`; None: there is no such program."""

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.inventory.gpus)


def look_at(settings: DeckSettings, environ: Mapping[str, str]) -> Gpus:
    """The GPUs that *settings* are about: the box's, or simulated ones."""
    if isinstance(settings.gpus, int):
        count = settings.gpus
        inventory = SimulatedProbe(count).discover()
        readings, telemetry = read_each([gpu.uuid for gpu in inventory.gpus], lambda: SimulatedProbe(count))
        return Gpus(inventory, readings=readings, telemetry=telemetry)
    probe = NvmlProbe(discover_timeout_s=_DISCOVER_S)
    inventory = probe.discover()
    smi = _nvidia_smi(environ)
    if not inventory.gpus:
        return Gpus(inventory, probe.problems, smi=smi)
    uuids = [gpu.uuid for gpu in inventory.gpus]
    readings, telemetry = read_each(uuids, NvmlProbe)
    return Gpus(inventory, probe.problems, readings, telemetry, claims_on(uuids, environ), look_at_cards(), smi)


def read_each(
    uuids: Sequence[str], probe_for: Callable[[], GpuProbe], *, limit_s: float = _READING_S
) -> tuple[dict[str, GpuReading], dict[str, Telemetry]]:
    """Readings and details by UUID, of those that answer within *limit_s*. With a probe for each GPU a call that hangs
    keeps one thread busy, not the others."""
    arrived: queue.SimpleQueue[tuple[GpuReading, ...]] = queue.SimpleQueue()
    readings: dict[str, GpuReading] = {}
    probes = {uuid: probe_for() for uuid in uuids}
    for uuid, probe in probes.items():
        probe.telemetry(uuid)  # asked for, it is read along
        probe.start([uuid], arrived.put, period_s=3600.0)
    deadline = time.monotonic() + limit_s
    try:
        while len(readings) < len(uuids):
            found = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            readings |= {reading.uuid: reading for reading in found}
    except queue.Empty:
        pass  # the others are told without
    details = {uuid: probes[uuid].telemetry(uuid) for uuid in readings}
    for probe in probes.values():
        probe.stop()
    return readings, {uuid: seen for uuid, seen in details.items() if seen is not None}


def _nvidia_smi(environ: Mapping[str, str]) -> Ended | None:
    path = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if path is None:
        return None
    return run([path, "-L"], env=environ, cwd=os.path.abspath(os.sep), limit_s=_SMI_S)
