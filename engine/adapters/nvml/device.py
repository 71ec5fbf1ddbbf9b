"""One GPU, sampled: what each field says, what it cannot say, and what to do when the GPU is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ...core.readings import GpuReading, Process
from ...ports import Telemetry
from .calls import Handle, Memory, Nvml, NvmlError, RawProcess
from .details import Details
from .fields import Fields
from .owners import Owners

_FIRST_RETRY_S = 5.0
_LAST_RETRY_S = 300.0

T = TypeVar("T")


class Device:
    """Reads one GPU, by UUID. Belongs to the sampling thread; its calls block as long as the driver does.

    A field that fails is None and takes no other field with it (`Fields`). A lost GPU gives its reason instead, and is
    looked up again after 5 s, 10 s, … 5 min.
    """

    def __init__(self, uuid: str, nvml: Nvml, owners: Owners, clock_s: Callable[[], float]) -> None:
        self._uuid = uuid
        self._nvml = nvml
        self._owners = owners
        self._clock_s = clock_s
        self._handle: Handle = None
        self._lost = ""
        self._retry_at_s = 0.0
        self._retry_in_s = _FIRST_RETRY_S
        self._basics = Fields()
        self._counter = Fields()
        """Of energy: nobody looks at it, so nobody is told where it is missing."""
        self._details = Details(nvml)
        self._lists: dict[str, list[RawProcess]] = {}

    def read(self) -> GpuReading:
        """`at` is the time before the first call: everything in the reading is at least as new."""
        at = self._clock_s()
        if self._lost and at < self._retry_at_s:
            return GpuReading(uuid=self._uuid, at=at, lost=self._lost)
        try:
            self._find()
            reading = self._fields(at)
        except NvmlError as failure:
            self._lose(failure)
            return GpuReading(uuid=self._uuid, at=at, lost=self._lost)
        self._lost, self._retry_in_s = "", _FIRST_RETRY_S
        return reading

    def look_closer(self) -> Telemetry:
        """What only people look at, after `read`. A GPU that is lost meanwhile is so at the next `read`."""
        at = self._clock_s()
        if self._lost or self._handle is None:
            return Telemetry(at=at)
        try:
            found = self._details.read(self._handle, at)
        except NvmlError:
            return Telemetry(at=at)
        return replace(found, missing={**self._basics.missing, **self._details.missing})

    def _find(self) -> None:
        if self._handle is None:
            self._nvml.connect()
            self._handle = self._nvml.by_uuid(self._uuid)

    def _lose(self, failure: NvmlError) -> None:
        self._handle = None
        self._lost = str(failure) or "lost"
        self._lists.clear()
        self._details.forget()
        self._retry_at_s = self._clock_s() + self._retry_in_s
        self._retry_in_s = min(_LAST_RETRY_S, 2 * self._retry_in_s)

    def _fields(self, at: float) -> GpuReading:
        self._basics.begin()
        self._counter.begin()
        memory = self._field("used_mib", self._nvml.memory) or Memory(None, None, None)
        reading = GpuReading(
            uuid=self._uuid,
            at=at,
            total_mib=memory.total_mib,
            used_mib=memory.used_mib,
            util_percent=self._field("util_percent", self._nvml.util_percent),
            temperature_c=self._field("temperature_c", self._nvml.temperature_c),
            power_w=self._field("power_w", self._nvml.power_w),
            processes=self._processes(),
            energy_j=self._counter.ask("energy_j", self._nvml.energy_j, self._handle),
        )
        if self._basics.failures and not self._basics.answers:
            raise self._basics.failures[0]
        return reading

    def _field(self, name: str, call: Callable[[Handle], T]) -> T | None:
        return self._basics.ask(name, call, self._handle)

    def _processes(self) -> tuple[Process, ...]:
        """Each process once; one that computes and draws counts as computing."""
        found: dict[int, RawProcess] = {}
        for name, call in (
            ("processes", self._nvml.compute_processes),
            ("mps", self._nvml.mps_processes),
            ("graphics", self._nvml.graphics_processes),
        ):
            for process in self._list(name, call):
                found.setdefault(process.pid, process)
        return tuple(self._owned(process) for process in found.values())

    def _list(self, name: str, call: Callable[[Handle], list[RawProcess]]) -> list[RawProcess]:
        """The last list stands in for one that cannot be had this time: no list is not an empty GPU."""
        listed = self._field(name, call)
        if listed is None:
            return self._lists.get(name, [])
        self._lists[name] = listed
        return listed

    def _owned(self, raw: RawProcess) -> Process:
        user, visible = self._owners.look(raw.pid)
        return Process(pid=raw.pid, used_mib=raw.used_mib, user=user, graphics=raw.graphics, visible=visible)
