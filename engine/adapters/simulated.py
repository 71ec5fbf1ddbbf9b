"""Simulated GPUs for demos and tests (`gpus = "sim:4"`): no driver, readings that follow who runs."""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.readings import GpuReading, Process
from ..core.spec import TaskSpec
from ..ports import Inventory, Telemetry
from .host import boottime_s, has_nvidia_hardware
from .sampling import SampledProbe
from .simulated_gpus import LIMIT_W, TOTAL_MIB, simulated_gpus

if TYPE_CHECKING:
    from ..core.events import AttemptStarting, Fact

VARIABLE = "GPUDECK_SIM_MIB"

_STEP = re.compile(r"\s*(\d{1,9})\s*(?:@\s*(\d{1,9}(?:\.\d+)?)\s*)?")


Use = Sequence[tuple[float, int]]
"""Memory over time: from when on (CLOCK_BOOTTIME), how many MiB; in order."""


def mib_at(use: Use, at: float) -> int:
    return next((mib for since, mib in reversed(use) if at >= since), 0)


def told_use(env: Mapping[str, str | None], since: float) -> Use | None:
    """None: it says nothing, or nothing that can be understood."""
    told = env.get(VARIABLE) or ""
    use: list[tuple[float, int]] = []
    for part in told.split(","):
        found = _STEP.fullmatch(part)
        if found is None:
            return None
        use.append((since + float(found[2] or 0.0), int(found[1])))
    return sorted(use)


_IDLE_MIB = 4
_IDLE_W = 62.0
_WARM_UP_S = 20.0
"""Time constant with which a busy chip heats up and an idle one cools down."""

SpecOf = Callable[["AttemptStarting"], "TaskSpec | None"]
"""What an attempt was started as."""


class SimulatedProbe(SampledProbe):
    """ports.GpuProbe for *count* GPUs "SIM-0", "SIM-1", … of 80 GiB, pairs of them linked more closely."""

    def __init__(self, count: int, *, clock_s: Callable[[], float] = boottime_s) -> None:
        self._gpus = simulated_gpus(count)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._holders: dict[str, dict[str, tuple[Process, Use]]] = {gpu.uuid: {} for gpu in self._gpus}
        self._heat: dict[str, tuple[float, float]] = {}
        self._tokens: dict[tuple[str, int], str] = {}

    def discover(self) -> Inventory:
        return Inventory(gpus=self._gpus, driver="simulated", hardware=has_nvidia_hardware())

    def occupy(self, uuid: str, token: str, use: Use | int | None = None) -> None:
        """Let the attempt *token* use so much of a GPU, over time or in MiB (None: some amount that depends on the
        token). Unknown GPUs are ignored."""
        with self._lock:
            holders = self._holders.get(uuid, {})
            process = Process(pid=_some_pid(token), used_mib=None, token=token, visible=False)
            used = _some_mib(token) if use is None else use
            holders[token] = process, [(0.0, used)] if isinstance(used, int) else used

    def release(self, token: str) -> None:
        """The attempt is gone from all GPUs. One that never was there is not an error."""
        with self._lock:
            for holders in self._holders.values():
                holders.pop(token, None)

    def follow(self, facts: Sequence[Fact], spec_of: SpecOf = lambda _: None) -> None:
        """Be as busy as attempts make the GPUs, and use as much memory as what they were started as says."""
        from ..core.events import AttemptEnded, AttemptStarting, StartRevoked  # who looks for GPUs needs no facts

        for fact in facts:
            if isinstance(fact, AttemptStarting):
                self._tokens[fact.task, fact.attempt] = fact.token
                use = _use_of(fact, spec_of(fact))
                for uuid in fact.gpus:
                    self.occupy(uuid, fact.token, use)
            elif isinstance(fact, (AttemptEnded, StartRevoked)):
                self.release(self._tokens.pop((fact.task, fact.attempt), ""))

    def telemetry(self, uuid: str) -> Telemetry | None:  # noqa: ARG002
        """None: there is no chip that could have clocks."""
        return None

    def _reader(self, uuids: Sequence[str]) -> Callable[[], tuple[GpuReading, ...]]:
        return lambda: self.read(uuids)

    def read(self, uuids: Sequence[str]) -> tuple[GpuReading, ...]:
        """What these GPUs read now; unknown ones are left out."""
        at = self._clock_s()
        with self._lock:
            return tuple(self._read_one(uuid, at) for uuid in uuids if uuid in self._holders)

    def _read_one(self, uuid: str, at: float) -> GpuReading:
        processes = tuple(replace(holder, used_mib=mib_at(use, at)) for holder, use in self._holders[uuid].values())
        util = _util_percent(uuid, len(processes), at)
        heat = self._warm(uuid, util / 100, at)
        return GpuReading(
            uuid=uuid,
            at=at,
            total_mib=TOTAL_MIB,
            used_mib=min(TOTAL_MIB, _IDLE_MIB + sum(process.used_mib or 0 for process in processes)),
            util_percent=util,
            temperature_c=round(31 + 42 * heat),
            power_w=round(_IDLE_W + (LIMIT_W - _IDLE_W) * 0.85 * util / 100, 1),
            processes=processes,
        )

    def _warm(self, uuid: str, load: float, at: float) -> float:
        """Heat from 0 to 1, drawn towards the load."""
        heat, since = self._heat.get(uuid, (0.0, at))
        heat = load + (heat - load) * math.exp(-max(0.0, at - since) / _WARM_UP_S)
        self._heat[uuid] = (heat, at)
        return heat


def _util_percent(uuid: str, tasks: int, at: float) -> int:
    """0 when idle; busy GPUs waver a little, each at its own rhythm."""
    if tasks == 0:
        return 0
    phase = zlib.crc32(uuid.encode()) % 60
    return min(100, round(84 + 4 * min(tasks, 3) + 4 * math.sin(at / 7 + phase)))


def _use_of(start: AttemptStarting, spec: TaskSpec | None) -> Use | int | None:
    """What its task tells, else what it asks for. Tasks of an entry whose memory is to be learned use the same."""
    if spec is None:
        return start.reserved_mib or None
    asked = spec.resources.gpu_memory_mib
    told = told_use(dict(spec.on_rung(start.rung, start.timeout_rung).env), start.at)
    return told or (_some_mib(spec.entry) if asked == "auto" else asked)


def _some_mib(word: str) -> int:
    return 8 * 1024 + zlib.crc32(word.encode()) % (24 * 1024)


def _some_pid(token: str) -> int:
    """A pid that no process of this box can have (Linux stops at 2**22)."""
    return (1 << 22) + 1 + zlib.crc32(token.encode()) % (1 << 20)
