"""What is on a GPU at a moment: how busy it is, and the processes on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a GPU, as NVML tells it."""

    pid: int
    used_mib: int | None
    """None: the driver does not say."""
    token: str = ""
    """The attempt of ours that it belongs to; empty: not ours."""
    user: str = ""
    """Login name, "" when it cannot be seen from here."""
    graphics: bool = False
    visible: bool = True
    """False: this pid is not in our /proc (a container sees the host's pids)."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment. None in a field: not known, which is not zero."""

    uuid: str
    at: float
    total_mib: int | None = None
    used_mib: int | None = None
    util_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    processes: tuple[Process, ...] = ()
    lost: str = ""
    """Why it cannot be used now, in NVML's words; empty: it answers."""
    energy_j: float | None = None
    """Used since the driver was loaded, as it counts."""
