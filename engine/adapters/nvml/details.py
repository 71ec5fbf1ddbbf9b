"""What only people look at: clocks and what slows them, limits, the fan, the memory's health."""

from __future__ import annotations

from ...ports import Telemetry
from .calls import Handle, Nvml
from .fields import Fields

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
        ask, nvml, limits = self._fields.ask, self._nvml, self._limits
        bits = ask("throttle", nvml.throttle_bits, handle)
        return Telemetry(
            at=at,
            sm_clock_mhz=ask("sm_clock_mhz", nvml.sm_clock_mhz, handle),
            memory_clock_mhz=ask("memory_clock_mhz", nvml.memory_clock_mhz, handle),
            throttle=None if bits is None else reasons_in_words(bits),
            fan_percent=ask("fan_percent", nvml.fan_percent, handle),
            slowdown_c=limits.slowdown_c,
            power_limit_w=limits.power_limit_w,
            sm_clock_max_mhz=limits.sm_clock_max_mhz,
            memory_clock_max_mhz=limits.memory_clock_max_mhz,
            pci_bus_id=limits.pci_bus_id,
            health=limits.health,
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
