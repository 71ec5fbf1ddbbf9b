"""One GPU, sampled: what each field says, what it cannot say, and what to do when the GPU is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeVar

from ...core.readings import GpuReading, Process
from ...ports import Telemetry
from .. import host
from ..processes import proc
from .calls import Fields, Handle, Memory, Nvml, NvmlError

_FIRST_RETRY_S = 5.0
_LAST_RETRY_S = 300.0

T = TypeVar("T")


class Device:
    """Reads one GPU, by UUID. Belongs to the sampling thread; its calls block as long as the driver does.

    A field that fails is None and takes no other field with it (`Fields`). A lost GPU gives its reason instead, and is
    looked up again after 5 s, 10 s, … 5 min.
    """

    def __init__(self, uuid: str, nvml: Nvml, clock_s: Callable[[], float], proc_root: str = "/proc") -> None:
        self._uuid = uuid
        self._nvml = nvml
        self._clock_s = clock_s
        self._proc_root = proc_root
        self._handle: Handle = None
        self._lost = ""
        self._retry_at_s = 0.0
        self._retry_in_s = _FIRST_RETRY_S
        self._basics = Fields()
        self._counter = Fields()
        """Of energy: nobody looks at it, so nobody is told where it is missing."""
        self._details = Details(nvml)
        self._lists: dict[str, list[Process]] = {}

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
        found: dict[int, Process] = {}
        for name, call in (
            ("processes", self._nvml.compute_processes),
            ("mps", self._nvml.mps_processes),
            ("graphics", self._nvml.graphics_processes),
        ):
            for process in self._list(name, call):
                found.setdefault(process.pid, process)
        return tuple(owned(process, self._proc_root) for process in found.values())

    def _list(self, name: str, call: Callable[[Handle], list[Process]]) -> list[Process]:
        """The last list stands in for one that cannot be had this time: no list is not an empty GPU."""
        listed = self._field(name, call)
        if listed is None:
            return self._lists.get(name, [])
        self._lists[name] = listed
        return listed


# -- what only people look at -----------------------------------------------------------------------------------------


_SLOW_S = 60.0
"""Limits and error counts are asked again after so long: an administrator can change a power limit."""

_REASONS: tuple[tuple[int, str], ...] = (
    (0x40, "hw thermal"),
    (0x20, "thermal"),
    (0x80, "power brake"),
    (0x04, "power"),
    (0x08, "hw slowdown"),
    (0x10, "sync boost"),
    (0x02, "set clocks"),
    (0x100, "display clocks"),
)
"""NVML's bits of what keeps clocks down, the gravest first. Bit 0, an idle GPU, keeps nothing down."""
_HW_SLOWDOWN = 0x08
_HW_TOLD = 0x40 | 0x80
"""Bits that say which hardware slowdown it is."""


def reasons_in_words(bits: int) -> tuple[str, ...]:
    """NVML's bit mask of clock event reasons, the gravest first: ("hw thermal", "power")."""
    if bits & _HW_TOLD:
        bits &= ~_HW_SLOWDOWN
    return tuple(word for bit, word in _REASONS if bits & bit)


class Details:
    """Of one GPU. Belongs to the sampling thread."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._fields = Fields()
        self._slow_at: float | None = None
        self._limits = Telemetry(at=0.0)

    def forget(self) -> None:
        """The GPU is lost: what comes back may have other limits."""
        self._slow_at = None
        self._limits = Telemetry(at=0.0)

    @property
    def missing(self) -> dict[str, str]:
        return self._fields.missing

    def read(self, handle: Handle, at: float) -> Telemetry:
        """About six calls, and ten once a minute. Raises NvmlError where the whole GPU is gone."""
        if self._slow_at is None or at - self._slow_at >= _SLOW_S:
            self._limits, self._slow_at = self._slow(handle), at
        ask, nvml = self._fields.ask, self._nvml
        bits = ask("throttle", nvml.throttle_bits, handle)
        return replace(
            self._limits,
            at=at,
            sm_clock_mhz=ask("sm_clock_mhz", nvml.sm_clock_mhz, handle),
            memory_clock_mhz=ask("memory_clock_mhz", nvml.memory_clock_mhz, handle),
            throttle=None if bits is None else reasons_in_words(bits),
            fan_percent=ask("fan_percent", nvml.fan_percent, handle),
        )

    def _slow(self, handle: Handle) -> Telemetry:
        ask, nvml = self._fields.ask, self._nvml
        return Telemetry(
            at=0.0,
            slowdown_c=ask("slowdown_c", nvml.slowdown_c, handle),
            power_limit_w=ask("power_limit_w", nvml.power_limit_w, handle),
            sm_clock_max_mhz=ask("sm_clock_max_mhz", nvml.sm_clock_max_mhz, handle),
            memory_clock_max_mhz=ask("memory_clock_max_mhz", nvml.memory_clock_max_mhz, handle),
            pci_bus_id=ask("pci_bus_id", nvml.pci_bus_id, handle) or "",
            health=self._health(handle),
        )

    def _health(self, handle: Handle) -> tuple[str, ...]:
        """Cards without error correction say nothing, and nothing is said of them."""
        told: list[str] = []
        errors = self._fields.ask("ecc", self._nvml.uncorrected_ecc, handle)
        if errors:
            told.append(f"{errors} uncorrected ECC error{'s' if errors > 1 else ''} since the driver was loaded")
        pending, failed = self._fields.ask("remapping", self._nvml.remapping, handle) or (False, False)
        if failed:
            told.append("remapping of memory rows failed")
        if pending:
            told.append("memory rows wait for a reset to be remapped")
        return tuple(told)


# -- whose a process is, by pid ---------------------------------------------------------------------------------------


_login_of = cache(host.login_of)
"""Can be slow to ask for (LDAP)."""


def owned(process: Process, proc_root: str = "/proc") -> Process:
    """The same with its user's login name, and whether it is visible: not where no such process exists in our pid
    namespace. One that exists but is hidden from us (hidepid) is visible and has no name."""
    if process.pid <= 0:
        return replace(process, visible=False)
    try:
        uid = os.stat(f"{proc_root}/{process.pid}").st_uid
    except OSError:
        return replace(process, visible=proc.exists(process.pid))
    return replace(process, user=_login_of(uid))
