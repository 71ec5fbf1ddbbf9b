"""One line on the box itself: CPU, load, memory, and room where the logs are."""

from __future__ import annotations

from typing import ClassVar

from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ..drawing.format import size
from ..drawing.host import HostReading, HostWatch
from ..drawing.spans import Part, Span, pack
from ..settings.config import Thresholds


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
        self._watch = HostWatch(self._log_dir, lambda reading: void(self.post_message(self.Read(reading))))

    def _halt(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def render(self) -> RenderResult:
        spans = pack(host_parts(self._reading, self._thresholds), self.size.width)
        styles = {name: self.get_visual_style(f"host-line--{name}") for name in ("plain", "dim", "warn")}
        return Content.assemble(*((text, styles[style]) for text, style in spans))


def void(_: object) -> None:
    """For callbacks whose result nobody wants."""


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
