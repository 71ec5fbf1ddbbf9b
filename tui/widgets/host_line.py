"""One line on the box itself: CPU, load, memory, and room where the logs are."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ...engine.adapters import host
from ..drawing.format import size
from ..drawing.spans import Part, Span, pack
from ..settings.config import Thresholds

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
    """Asks for the room on a disk in a thread of its own: on a dead file server the call may never return."""

    def __init__(
        self,
        path: str,
        period_s: float = PERIOD_S,
        *,
        look: Callable[[str], Disk] = look_at_disk,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*path*: a folder that may not exist yet; then its nearest parent counts."""
        self._path = path
        self._look = look
        self._period_s = period_s
        self._now = now
        self._stop = threading.Event()
        self._seen = Disk()
        self._seen_at = now()
        threading.Thread(target=self._run, name="gpudeck-disk", daemon=True).start()

    @property
    def seen(self) -> Disk:
        """The last answer; with a problem where that is some time ago."""
        silent = self._now() - self._seen_at > max(_SILENT_S, 3 * self._period_s)
        return replace(self._seen, problem="does not answer") if silent else self._seen

    def stop(self) -> None:
        """Returns at once."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            seen = self._look(self._path)
            self._seen, self._seen_at = seen, self._now()
            self._stop.wait(self._period_s)


class HostWatch:
    """Reads every two seconds in a daemon thread and hands each reading that differs to *sink*, on that thread."""

    def __init__(
        self,
        log_dir: str,
        sink: Callable[[HostReading], object],
        period_s: float = PERIOD_S,
        *,
        look: Callable[[str], Disk] = look_at_disk,
    ) -> None:
        self._disk = DiskWatch(os.path.abspath(log_dir), period_s, look=look)
        self._sink = sink
        self._period_s = period_s
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="gpudeck-host", daemon=True).start()

    def stop(self) -> None:
        """Returns at once; the sink may still be called once."""
        self._stop.set()
        self._disk.stop()

    def _run(self) -> None:
        last: HostReading | None = None
        wait_s = _SOON_S
        while not self._stop.wait(wait_s):
            reading = read_host(self._disk.seen)
            if last is None:
                reading = replace(reading, cpu_percent=None)  # it has nothing to compare with
            if reading != last:
                self._sink(reading)
            wait_s = _SOON_S if last is None else self._period_s
            last = reading


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

    class Read(Message):
        """Comes from the reading thread."""

        def __init__(self, reading: HostReading) -> None:
            super().__init__()
            self.reading = reading

    def __init__(self, *, thresholds: Thresholds | None = None, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._thresholds = thresholds or Thresholds()
        self._watch: HostWatch | None = None
        self._log_dir = ""
        self._reading = HostReading()

    def show(self, log_dir: str) -> None:
        """Where the logs are; nothing happens when it is told again."""
        if log_dir == self._log_dir:
            return
        self._log_dir = log_dir
        self._halt()
        if self.is_attached:
            self._begin()

    def show_reading(self, reading: HostReading) -> None:
        if reading != self._reading:
            self._reading = reading
            self.refresh()

    def on_mount(self) -> None:
        if self._log_dir:
            self._begin()

    def on_unmount(self) -> None:
        self._halt()

    def on_host_line_read(self, message: Read) -> None:
        message.stop()
        self.show_reading(message.reading)

    def _begin(self) -> None:
        self._watch = HostWatch(self._log_dir, lambda reading: self.post_message(self.Read(reading)))

    def _halt(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

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
    used, total = size(reading.memory_used), size(reading.memory_total)
    return ("memory ", "dim"), (used, "warn" if full else "plain"), (f" of {total}", "dim")


def _disk(reading: HostReading, thresholds: Thresholds) -> tuple[Span, ...]:
    disk = reading.disk
    if disk.free is None or not disk.total:
        return ("logs ", "dim"), (disk.problem or "N/A", "warn" if disk.problem else "plain")
    full = 100 * (disk.total - disk.free) >= thresholds.disk_percent * disk.total
    told = (f"{size(disk.free)} free", "warn" if full else "plain")
    return ("logs ", "dim"), told, (f", {disk.problem}" if disk.problem else "", "warn")
