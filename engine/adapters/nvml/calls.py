"""NVML through pynvml, typed: each call gives a value or raises one `NvmlError`. pynvml is imported only here, on
first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ...core.readings import Process

Handle = Any
"""NVML's opaque pointer. Never None: the library would crash."""

Kind = Literal["unsupported", "permission", "lost", "down", "absent", "size", "other"]

_MIB = 1024 * 1024
_SIZE_RETRIES = 4


class NvmlError(Exception):
    """A call that failed. `str(failure)` is NVML's own words.

    `kind`: the field is not supported here and never will be; not permitted; the GPU is lost; the driver is down, or
    there is none (every GPU is affected); a list outgrew its buffer; anything else, perhaps only for a moment.
    """

    def __init__(self, words: str, kind: Kind = "other") -> None:
        super().__init__(words)
        self.kind: Kind = kind

    @property
    def whole_gpu(self) -> bool:
        """Not one field fails, but the GPU or all of them."""
        return self.kind in ("lost", "down", "absent")


@dataclass(frozen=True, slots=True)
class Memory:
    total_mib: int | None
    """What programs can allocate: what the driver keeps for itself is taken off. None where memory is unified."""
    used_mib: int | None
    nominal_mib: int | None
    """The card's size."""


class Nvml:
    """Typed calls. All of them may block as long as the driver likes; none may be made on a loop's thread."""

    def __init__(self) -> None:
        self._py: Any = importlib.import_module("pynvml")
        kinds: dict[str, Kind] = {
            "NOT_SUPPORTED": "unsupported", "FUNCTION_NOT_FOUND": "unsupported",
            "ARGUMENT_VERSION_MISMATCH": "unsupported", "DEPRECATED": "unsupported", "NO_PERMISSION": "permission",
            "GPU_IS_LOST": "lost", "RESET_REQUIRED": "lost", "GPU_NOT_FOUND": "lost", "UNINITIALIZED": "down",
            "DRIVER_NOT_LOADED": "absent", "LIB_RM_VERSION_MISMATCH": "down", "LIBRARY_NOT_FOUND": "absent",
            "INSUFFICIENT_SIZE": "size",
        }  # fmt: skip
        names = {name: getattr(self._py, f"NVML_ERROR_{name}", None) for name in kinds}
        self._kinds: dict[int, Kind] = {code: kinds[name] for name, code in names.items() if code is not None}

        self._up = False

    def connect(self) -> None:
        """Load the library and reach the driver, unless that is done. Never undone: a shutdown while another thread
        is inside a call crashes the process."""
        if not self._up:
            self._call("nvmlInit")
            self._up = True

    # -- the box --------------------------------------------------------------------------------------------------

    def driver(self) -> str:
        return self._call("nvmlSystemGetDriverVersion")

    def count(self) -> int:
        return self._call("nvmlDeviceGetCount")

    def by_index(self, index: int) -> Handle:
        return self._handle(self._call("nvmlDeviceGetHandleByIndex", index))

    def by_uuid(self, uuid: str) -> Handle:
        return self._handle(self._call("nvmlDeviceGetHandleByUUID", uuid))

    # -- what does not change -------------------------------------------------------------------------------------

    def uuid(self, handle: Handle) -> str:
        return self._call("nvmlDeviceGetUUID", handle)

    def name(self, handle: Handle) -> str:
        return self._call("nvmlDeviceGetName", handle)

    def slowdown_c(self, handle: Handle) -> int:
        threshold = self._py.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        return self._call("nvmlDeviceGetTemperatureThreshold", handle, threshold)

    def power_limit_w(self, handle: Handle) -> float:
        return self._call("nvmlDeviceGetEnforcedPowerLimit", handle) / 1000

    def sm_clock_max_mhz(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetMaxClockInfo", handle, self._py.NVML_CLOCK_SM)

    def memory_clock_max_mhz(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetMaxClockInfo", handle, self._py.NVML_CLOCK_MEM)

    def pci_bus_id(self, handle: Handle) -> str:
        """As `lspci -D` and the kernel write it: "0000:3b:00.0"."""
        raw = self._call("nvmlDeviceGetPciInfo_v3", handle).busId
        text = (raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)).lower()
        domain, _, rest = text.partition(":")
        return f"{domain[-4:]}:{rest}" if domain.startswith("0000") else text

    def uncorrected_ecc(self, handle: Handle) -> int:
        """Errors since the driver was loaded."""
        kind, since = self._py.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self._py.NVML_VOLATILE_ECC
        return self._call("nvmlDeviceGetTotalEccErrors", handle, kind, since)

    def remapping(self, handle: Handle) -> tuple[bool, bool]:
        """Whether rows of memory wait for a reset to be remapped, and whether a remapping failed."""
        _, _, pending, failed = self._call("nvmlDeviceGetRemappedRows", handle)
        return bool(pending), bool(failed)

    def mig_on(self, handle: Handle) -> bool:
        return self._call("nvmlDeviceGetMigMode", handle)[0] == self._py.NVML_DEVICE_MIG_ENABLE

    def persistence_on(self, handle: Handle) -> bool:
        """Whether the driver keeps the card ready while nobody uses it."""
        return self._call("nvmlDeviceGetPersistenceMode", handle) == self._py.NVML_FEATURE_ENABLED

    def compute_mode(self, handle: Handle) -> int:
        """0 shared, 2 nobody may compute, 3 one process at a time."""
        return self._call("nvmlDeviceGetComputeMode", handle)

    def mig_slots(self, handle: Handle) -> int:
        """How many places for instances the GPU has; not each is taken."""
        return self._call("nvmlDeviceGetMaxMigDeviceCount", handle)

    def mig_instance(self, handle: Handle, place: int) -> Handle:
        return self._handle(self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, place))

    def distance(self, one: Handle, other: Handle) -> int:
        """NVML's topology level: 0 same board, 10 one switch, 20 several, 30 host bridge, 40 NUMA node, 50 system."""
        return self._call("nvmlDeviceGetTopologyCommonAncestor", one, other)

    def nvlinked(self, one: Handle, other: Handle) -> bool:
        """Memory of one is reachable from the other over NVLink, directly or through a switch."""
        index = self._py.NVML_P2P_CAPS_INDEX_NVLINK
        return self._call("nvmlDeviceGetP2PStatus", one, other, index) == self._py.NVML_P2P_STATUS_OK

    # -- what changes ---------------------------------------------------------------------------------------------

    def memory(self, handle: Handle) -> Memory:
        """Version 2 of the call: version 1 counts what the driver reserves as used. Older drivers have only that."""
        try:
            raw = self._call("nvmlDeviceGetMemoryInfo", handle, self._py.nvmlMemory_v2)
            reserved = raw.reserved
        except NvmlError as failure:
            if failure.kind != "unsupported":
                raise
            raw, reserved = self._call("nvmlDeviceGetMemoryInfo", handle), 0
        if raw.total == 0:
            return Memory(None, None, None)
        return Memory((raw.total - reserved) // _MIB, raw.used // _MIB, raw.total // _MIB)

    def util_percent(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetUtilizationRates", handle).gpu

    def temperature_c(self, handle: Handle) -> int:
        sensor = self._py.NVML_TEMPERATURE_GPU
        try:
            return self._call("nvmlDeviceGetTemperature", handle, sensor)
        except NvmlError as failure:
            if failure.kind != "unsupported":
                raise
            return self._call("nvmlDeviceGetTemperatureV", handle, sensor)

    def power_w(self, handle: Handle) -> float:
        return self._call("nvmlDeviceGetPowerUsage", handle) / 1000

    def energy_j(self, handle: Handle) -> float:
        """Since the driver was loaded. From Volta on."""
        return self._call("nvmlDeviceGetTotalEnergyConsumption", handle) / 1000

    def sm_clock_mhz(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetClockInfo", handle, self._py.NVML_CLOCK_SM)

    def memory_clock_mhz(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetClockInfo", handle, self._py.NVML_CLOCK_MEM)

    def throttle_bits(self, handle: Handle) -> int:
        """NVML's mask of what keeps the clocks down. The call has this name in all drivers; newer ones have another
        beside it."""
        return self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle)

    def fan_percent(self, handle: Handle) -> int:
        return self._call("nvmlDeviceGetFanSpeed", handle)

    def compute_processes(self, handle: Handle) -> list[Process]:
        return self._processes("nvmlDeviceGetComputeRunningProcesses", handle)

    def mps_processes(self, handle: Handle) -> list[Process]:
        return self._processes("nvmlDeviceGetMPSComputeRunningProcesses", handle)

    def graphics_processes(self, handle: Handle) -> list[Process]:
        return self._processes("nvmlDeviceGetGraphicsRunningProcesses", handle, graphics=True)

    # -- making calls ---------------------------------------------------------------------------------------------

    def _processes(self, name: str, handle: Handle, *, graphics: bool = False) -> list[Process]:
        """Nobody is asked whose they are."""
        raw = self._retried(lambda: self._newest(name, handle))
        return [
            Process(entry.pid, None if entry.usedGpuMemory is None else entry.usedGpuMemory // _MIB, graphics=graphics)
            for entry in raw
        ]

    def _newest(self, name: str, handle: Handle) -> list[Any]:
        """Drivers before 510 have only the second version of the list."""
        try:
            return self._call(f"{name}_v3", handle)
        except NvmlError as failure:
            if failure.kind != "unsupported":
                raise
            return self._call(f"{name}_v2", handle)

    def _retried(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Processes that start between asking for the size and asking for the list make the buffer too small."""
        for _ in range(_SIZE_RETRIES):
            try:
                return call()
            except NvmlError as failure:
                if failure.kind != "size":
                    raise
        return call()

    def _handle(self, handle: Handle) -> Handle:
        if not handle:
            raise NvmlError("NVML gave no handle", "lost")
        return handle

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._py, name)(*arguments)
        except self._py.NVMLError as error:
            kind: Kind = self._kinds.get(error.value, "other")
            self._up = self._up and kind not in ("down", "absent")
            raise NvmlError(self._words(error), kind) from None
        except (AttributeError, UnicodeDecodeError, self._py.NVMLLibraryMismatchError) as error:
            raise NvmlError(str(error), "unsupported") from None

    def _words(self, error: Any) -> str:
        """The library's words, as nvidia-smi prints them; pynvml's own where there is no library."""
        try:
            return str(self._py.nvmlErrorString(error.value)) or str(error)
        except (self._py.NVMLError, AttributeError, UnicodeDecodeError):
            return str(error)


# -- field by field ---------------------------------------------------------------------------------------------------


NOT_SUPPORTED = "not supported"
NO_PERMISSION = "no permission"

T = TypeVar("T")


class Fields:
    """A field that fails is None, a gap, and takes no other field with it; one that is not supported is not asked
    again.

    `missing`: why a field is a gap, by name: "not supported", "no permission", else NVML's words. `answers` and
    `failures` count since `begin`; what is not supported or not permitted is no failure.
    """

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self.answers = 0
        self.failures: list[NvmlError] = []
        self._unsupported: set[str] = set()

    def begin(self) -> None:
        self.answers, self.failures = 0, []

    def ask(self, name: str, call: Callable[[Handle], T], handle: Handle) -> T | None:
        """None: a gap. Raises NvmlError where the whole GPU is gone."""
        if name in self._unsupported:
            return None
        try:
            value = call(handle)
        except NvmlError as failure:
            if failure.whole_gpu:
                raise
            self._fail(name, failure)
            return None
        self.answers += 1
        if name in self.missing:
            del self.missing[name]
        return value

    def _fail(self, name: str, failure: NvmlError) -> None:
        if failure.kind == "unsupported":
            self._unsupported.add(name)
            self.missing[name] = NOT_SUPPORTED
        elif failure.kind == "permission":
            self.missing[name] = NO_PERMISSION
        else:
            self.failures.append(failure)
            self.missing[name] = str(failure)
