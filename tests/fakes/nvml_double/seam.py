# ruff: noqa: N802 (the names are NVML's)
"""The NVML double in Python: an object for `pynvml.nvmlLib`. Same state file, same answers as nvml.c."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .box import read

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 0, 1, 2, 3, 6
INSUFFICIENT_SIZE, GPU_IS_LOST, ARGUMENT_VERSION = 7, 15, 25
_WORDS = {
    0: "Success", 1: "Uninitialized", 2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions",
    6: "Not Found", 7: "Insufficient Size", 9: "Driver Not Loaded", 15: "GPU is lost",
    18: "Driver/library version mismatch",
}  # fmt: skip
_MEMORY_V2 = 0x02000028
_NONE = 2**64 - 1
_CLOCKS = {1: "sm", 2: "memclock"}


class _FailedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _State:
    """The state file at one moment."""

    def __init__(self, path: str) -> None:
        self._values = read(path)

    def all(self, key: str) -> Sequence[str]:
        return self._values.get(key, ())

    def text(self, key: str) -> str | None:
        return next(iter(self.all(key)), None)

    def number(self, key: str, otherwise: int = 0) -> int:
        value = self.text(key)
        return otherwise if value is None else int(value)

    def prefixes(self) -> list[str]:
        cards = [f"gpu.{card}" for card in range(self.number("count"))]
        return [prefix for card in cards for prefix in (card, *(f"{card}.mig.{place}" for place in range(8)))]

    def place_of(self, uuid: str) -> str | None:
        return next((prefix for prefix in self.prefixes() if self.text(f"{prefix}.uuid") == uuid), None)


class Seam:
    """pynvml asks for functions by name: `getattr(lib, "nvmlDeviceGetName")(handle, buffer, size)`."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._uuids: list[str] = []
        self._inits = 0
        self._raced = 0
        self._tick = threading.Event()
        self._functions: dict[str, Callable[..., int]] = {}

    def __getattr__(self, name: str) -> Any:
        body = getattr(type(self), f"_{name}", None)
        if body is None:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            return self._answer(name, body, arguments)

        return function

    def _answer(self, name: str, body: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "nvmlErrorString":
            return body(self, *arguments)
        state = _State(self._path)
        log = state.text("calls")
        if log:
            with open(log, "a") as file:
                file.write(f"{name}\n")
        while {"all", name} & set(state.all("hang")):
            self._tick.wait(0.005)
            state = _State(self._path)
        failed = state.number(f"error.{name}")
        if not failed and self._inits <= 0 and name != "nvmlInitWithFlags":
            failed = UNINITIALIZED
        try:
            return failed or body(self, state, *arguments) or SUCCESS
        except _FailedError as failure:
            return failure.code

    # -- the box ------------------------------------------------------------------------------------------------------

    def _nvmlErrorString(self, code: int) -> bytes:
        return _WORDS.get(code, "Unknown Error").encode()

    def _nvmlInitWithFlags(self, state: _State, _flags: int) -> None:
        _check(state.number("init"))
        self._inits += 1

    def _nvmlShutdown(self, _state: _State) -> None:
        raise AssertionError("the program may not shut NVML down: a call may be under way")

    def _nvmlSystemGetDriverVersion(self, state: _State, out: Any, size: Any) -> None:
        _put_text(state.text("driver"), out, size)

    def _nvmlDeviceGetCount_v2(self, state: _State, out: Any) -> None:
        out._obj.value = state.number("count")

    def _nvmlDeviceGetHandleByIndex_v2(self, state: _State, index: Any, out: Any) -> None:
        _check(INVALID_ARGUMENT if index.value >= state.number("count") else SUCCESS)
        self._give(state, f"gpu.{index.value}", out)

    def _nvmlDeviceGetHandleByUUID(self, state: _State, uuid: Any, out: Any) -> None:
        prefix = state.place_of(uuid.value.decode())
        self._give(state, prefix or "nowhere", out)

    # -- one GPU ------------------------------------------------------------------------------------------------------

    def _nvmlDeviceGetUUID(self, state: _State, handle: Any, out: Any, size: Any) -> None:
        _put_text(state.text(f"{self._use(state, handle, 'uuid')}.uuid"), out, size)

    def _nvmlDeviceGetName(self, state: _State, handle: Any, out: Any, size: Any) -> None:
        _put_text(state.text(f"{self._use(state, handle, 'name')}.name"), out, size)

    def _nvmlDeviceGetPowerUsage(self, state: _State, handle: Any, out: Any) -> None:
        self._put_number(state, handle, "power", out)

    def _nvmlDeviceGetTotalEnergyConsumption(self, state: _State, handle: Any, out: Any) -> None:
        self._put_number(state, handle, "energy", out)

    def _nvmlDeviceGetEnforcedPowerLimit(self, state: _State, handle: Any, out: Any) -> None:
        self._put_number(state, handle, "limit", out)

    def _nvmlDeviceGetTemperature(self, state: _State, handle: Any, _sensor: Any, out: Any) -> None:
        self._put_number(state, handle, "temp", out)

    def _nvmlDeviceGetTemperatureThreshold(self, state: _State, handle: Any, threshold: Any, out: Any) -> None:
        _check(SUCCESS if threshold.value == 1 else NOT_SUPPORTED)
        self._put_number(state, handle, "slowdown", out)

    def _nvmlDeviceGetClockInfo(self, state: _State, handle: Any, clock: Any, out: Any) -> None:
        self._put_number(state, handle, _CLOCKS[clock.value], out)

    def _nvmlDeviceGetMaxClockInfo(self, state: _State, handle: Any, clock: Any, out: Any) -> None:
        self._put_number(state, handle, f"{_CLOCKS[clock.value]}max", out)

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, state: _State, handle: Any, out: Any) -> None:
        self._put_number(state, handle, "throttle", out)

    def _nvmlDeviceGetFanSpeed(self, state: _State, handle: Any, out: Any) -> None:
        self._put_number(state, handle, "fan", out)

    def _nvmlDeviceGetPciInfo_v3(self, state: _State, handle: Any, out: Any) -> None:
        bus = state.text(f"{self._use(state, handle, 'bus')}.bus")
        _check(NOT_SUPPORTED if bus is None else SUCCESS)
        out._obj.busId = (bus or "").encode()

    def _nvmlDeviceGetTotalEccErrors(self, state: _State, handle: Any, kind: Any, since: Any, out: Any) -> None:
        assert (kind.value, since.value) == (1, 0), "uncorrected ones since the driver was loaded"
        self._put_number(state, handle, "ecc", out)

    def _nvmlDeviceGetRemappedRows(self, state: _State, handle: Any, *outs: Any) -> None:
        for out, bit in zip(outs, (0, 0, 1, 2), strict=True):
            out._obj.value = int(bool(self._number(state, handle, "remap") & bit))

    def _nvmlDeviceGetUtilizationRates(self, state: _State, handle: Any, out: Any) -> None:
        out._obj.gpu = self._number(state, handle, "util")

    def _nvmlDeviceGetMemoryInfo_v2(self, state: _State, handle: Any, out: Any) -> None:
        _check(SUCCESS if out._obj.version == _MEMORY_V2 else ARGUMENT_VERSION)
        out._obj.total, out._obj.reserved, out._obj.used = self._memory(state, handle)

    def _nvmlDeviceGetMemoryInfo(self, state: _State, handle: Any, out: Any) -> None:
        out._obj.total, reserved, used = self._memory(state, handle)
        out._obj.used = reserved + used

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, state: _State, handle: Any, size: Any, out: Any) -> int:
        return self._processes(state, self._use(state, handle, "compute"), "C", size, out)

    def _nvmlDeviceGetComputeRunningProcesses_v2(self, state: _State, handle: Any, size: Any, out: Any) -> int:
        return self._processes(state, self._use(state, handle, "compute"), "C", size, out)

    def _nvmlDeviceGetGraphicsRunningProcesses_v3(self, state: _State, handle: Any, size: Any, out: Any) -> int:
        return self._processes(state, self._use(state, handle, "graphics"), "G", size, out)

    def _nvmlDeviceGetMPSComputeRunningProcesses_v3(self, state: _State, handle: Any, size: Any, out: Any) -> int:
        return self._processes(state, self._use(state, handle, "mps"), "M", size, out)

    # -- MIG and topology ---------------------------------------------------------------------------------------------

    def _nvmlDeviceGetMigMode(self, state: _State, handle: Any, current: Any, pending: Any) -> None:
        current._obj.value = pending._obj.value = self._number(state, handle, "mig")

    def _nvmlDeviceGetMaxMigDeviceCount(self, state: _State, handle: Any, out: Any) -> None:
        self._use(state, handle, "mig")
        out._obj.value = 7

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, state: _State, handle: Any, place: Any, out: Any) -> None:
        self._give(state, f"{self._use(state, handle, 'mig')}.mig.{place.value}", out)

    def _nvmlDeviceGetTopologyCommonAncestor(self, state: _State, one: Any, other: Any, out: Any) -> None:
        level = self._pair(state, "topology", one, other)
        _check(NOT_SUPPORTED if level < 0 else SUCCESS)
        out._obj.value = level

    def _nvmlDeviceGetP2PStatus(self, state: _State, one: Any, other: Any, index: Any, out: Any) -> None:
        linked = self._pair(state, "nvlink", one, other) == 1
        out._obj.value = 0 if linked and getattr(index, "value", index) == 2 else 5

    # -- parts --------------------------------------------------------------------------------------------------------

    def _give(self, state: _State, prefix: str, out: Any) -> None:
        uuid = state.text(f"{prefix}.uuid")
        if uuid is None:
            raise _FailedError(NOT_FOUND)
        _check(GPU_IS_LOST if state.number(f"{prefix}.lost") else state.number(f"{prefix}.error.handle"))
        if uuid not in self._uuids:
            self._uuids.append(uuid)
        pointer = ctypes.c_void_p(1 + self._uuids.index(uuid))
        ctypes.memmove(out, ctypes.byref(pointer), ctypes.sizeof(pointer))

    def _use(self, state: _State, handle: Any, field: str) -> str:
        number = ctypes.cast(handle, ctypes.c_void_p).value
        assert number, "a NULL handle crashes the real library"
        uuid = self._uuids[number - 1]
        while (hung := state.place_of(uuid)) and _State(self._path).number(f"{hung}.hang"):
            self._tick.wait(0.005)
        prefix = state.place_of(uuid)
        if prefix is None or state.number(f"{prefix}.lost"):
            raise _FailedError(GPU_IS_LOST)
        _check(state.number(f"{prefix}.error.{field}"))
        return prefix

    def _number(self, state: _State, handle: Any, field: str) -> int:
        value = state.number(f"{self._use(state, handle, field)}.{field}", -1)
        _check(NOT_SUPPORTED if value < 0 else SUCCESS)
        return value

    def _put_number(self, state: _State, handle: Any, field: str, out: Any) -> None:
        out._obj.value = self._number(state, handle, field)

    def _memory(self, state: _State, handle: Any) -> tuple[int, int, int]:
        prefix = self._use(state, handle, "memory")
        _check(SUCCESS if state.text(f"{prefix}.total") else NOT_SUPPORTED)
        total, reserved, used = (state.number(f"{prefix}.{key}") << 20 for key in ("total", "reserved", "used"))
        return total, reserved, used

    def _processes(self, state: _State, prefix: str, kind: str, size: Any, out: Any) -> int:
        lines = [line.split() for line in state.all(f"{prefix}.process")]
        found = [(int(pid), used) for pid, used, kinds in lines if kind in kinds]
        room = 0 if out is None else size._obj.value
        for entry, (pid, used) in zip(out or (), found, strict=False):
            entry.pid = pid
            entry.usedGpuMemory = _NONE if used == "-" else int(used) << 20
        if out is not None and self._raced < state.number(f"{prefix}.race"):
            self._raced += 1
            return INSUFFICIENT_SIZE
        size._obj.value = len(found)
        return SUCCESS if len(found) <= room else INSUFFICIENT_SIZE

    def _pair(self, state: _State, key: str, one: Any, other: Any) -> int:
        first, second = sorted(int(self._use(state, handle, key).split(".")[1]) for handle in (one, other))
        return state.number(f"{key}.{first}.{second}", -1)


def _check(code: int) -> None:
    if code:
        raise _FailedError(code)


def _put_text(value: str | None, out: Any, size: Any) -> None:
    _check(NOT_SUPPORTED if value is None else INSUFFICIENT_SIZE if len(value) >= size.value else SUCCESS)
    out.value = (value or "").encode()
