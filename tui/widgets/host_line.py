"""One line on the box itself: CPU, load, memory, and room where the logs are."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import work
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ...engine.adapters import host
from ...engine.text import size_text
from ..background import begun, in_thread
from ..drawing.spans import Part, Span, pack
from ..settings import Thresholds

PERIOD_S = 2.0
_SOON_S = 0.2
_SILENT_S = 6.0
"""A disk that answers nothing for so long is told of."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Sizes in bytes; None: not known."""

    free: int | None = None
    total: int | None = None
    problem: str = ""
    """Why it is not known, or no longer: "No such file or directory", "does not answer"."""


@dataclass(frozen=True, slots=True)
class HostReading:
    """None: not known. Sizes in bytes."""

    cpu_percent: float | None = None
    """Of all cores together, since the reading before."""
    cores: int = 0
    load: float | None = None
    """Of the last minute."""
    memory_used: int | None = None
    memory_total: int | None = None
    disk: Disk = Disk()


def look_at_disk(path: str) -> Disk:
    """Free bytes are those that this user may fill. May hang."""
    while True:
        try:
            found = os.statvfs(path)
        except FileNotFoundError:
            parent = os.path.dirname(path)
            if parent in ("", path):
                return Disk(problem="No such file or directory")
            path = parent
        except OSError as error:
            return Disk(problem=error.strerror or str(error))
        else:
            return Disk(free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize)


class DiskWatch:
    """Asks for the room on a disk in the background: on a dead file server the call may never return."""

    def __init__(
        self, path: str, *, look: Callable[[str], Disk] = look_at_disk, now: Callable[[], float] = time.monotonic
    ) -> None:
        """*path*: a folder that may not exist yet; then its nearest parent counts."""
        self._look = lambda: look(path)
        self._now = now
        self._seen = Disk()
        self._ask()

    def _ask(self) -> None:
        self._answer, self._asked_at = begun(self._look), self._now()

    def seen(self) -> Disk:
        """The last answer, and asks again; with a problem where one has been waited for for long."""
        if self._answer.done():
            self._seen = self._answer.result()
            self._ask()
        silent = self._now() - self._asked_at > _SILENT_S
        return replace(self._seen, problem="does not answer") if silent else self._seen


def read_host(disk: Disk) -> HostReading:
    """Cores and memory as admission counts them: what our affinity and cgroups leave. Rounded as it is shown, so that a
    reading that looks the same is the same. CPU: since it was last read."""
    import psutil  # once the first picture stands: it takes 20 ms

    total, available = host.mem_total_mib() << 20, host.mem_available_mib() << 20
    return HostReading(
        cpu_percent=round(psutil.cpu_percent()),
        cores=host.cores(),
        load=_load_average(),
        memory_used=_rounded(max(0, total - available)),
        memory_total=total,
        disk=replace(disk, free=None if disk.free is None else _rounded(disk.free)),
    )


def _load_average() -> float | None:
    try:
        return round(os.getloadavg()[0], 1)
    except OSError:
        return None


def _rounded(count_bytes: int) -> int:
    step = 100 << 20
    return round(count_bytes / step) * step


class HostLine(Widget):
    """Reads by itself while it is shown, once `show` has said where the logs are."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"host-line--plain", "host-line--dim", "host-line--warn"}

    def __init__(self, *, thresholds: Thresholds) -> None:
        super().__init__()
        self._thresholds = thresholds
        self._log_dir = ""
        self._reading = HostReading()

    def show(self, log_dir: str) -> None:
        """Where the logs are; nothing happens when it is told again."""
        if log_dir == self._log_dir:
            return
        self._log_dir = log_dir
        if self.is_attached:
            self._watch()

    def show_reading(self, reading: HostReading) -> None:
        if reading != self._reading:
            self._reading = reading
            self.refresh()

    def on_mount(self) -> None:
        if self._log_dir:
            self._watch()

    @work(exclusive=True)
    async def _watch(self) -> None:
        disk, waits_s = DiskWatch(os.path.abspath(self._log_dir)), iter((_SOON_S, _SOON_S))
        first = True
        while True:
            await asyncio.sleep(next(waits_s, PERIOD_S))
            reading = await in_thread(lambda: read_host(disk.seen()))
            self.show_reading(replace(reading, cpu_percent=None) if first else reading)  # nothing to compare with
            first = False

    def render(self) -> RenderResult:
        spans = pack(host_parts(self._reading, self._thresholds), self.size.width)
        styles = {name: self.get_visual_style(f"host-line--{name}") for name in ("plain", "dim", "warn")}
        return Content.assemble(*((text, styles[style]) for text, style in spans))


def host_parts(reading: HostReading, thresholds: Thresholds) -> list[Part]:
    """Pure: what the line says, the least important left out first. What is not known is said to be so."""
    return [
        Part(0, _cpu(reading)),
        Part(1, _memory(reading, thresholds)),
        Part(2, _disk(reading, thresholds)),
        Part(3, _load(reading)),
    ]


def _cpu(reading: HostReading) -> tuple[Span, ...]:
    text = "N/A" if reading.cpu_percent is None else f"{reading.cpu_percent:.0f}%"
    return ("CPU ", "dim"), (text, "plain"), (f" of {reading.cores}" if reading.cores else "", "dim")


def _load(reading: HostReading) -> tuple[Span, ...]:
    return (("load ", "dim"), ("N/A" if reading.load is None else f"{reading.load:.1f}", "plain"))


def _memory(reading: HostReading, thresholds: Thresholds) -> tuple[Span, ...]:
    if reading.memory_used is None or not reading.memory_total:
        return ("memory ", "dim"), ("N/A", "plain")
    full = 100 * reading.memory_used >= thresholds.memory_percent * reading.memory_total
    used, total = size_text(reading.memory_used), size_text(reading.memory_total)
    return ("memory ", "dim"), (used, "warn" if full else "plain"), (f" of {total}", "dim")


def _disk(reading: HostReading, thresholds: Thresholds) -> tuple[Span, ...]:
    disk = reading.disk
    if disk.free is None or not disk.total:
        return ("logs ", "dim"), (disk.problem or "N/A", "warn" if disk.problem else "plain")
    full = 100 * (disk.total - disk.free) >= thresholds.disk_percent * disk.total
    told = (f"{size_text(disk.free)} free", "warn" if full else "plain")
    return ("logs ", "dim"), told, (f", {disk.problem}" if disk.problem else "", "warn")
