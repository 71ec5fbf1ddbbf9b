"""Who is on a GPU: pid, user, task, memory and command of each process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import psutil
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ...engine.protocol.wire import GpuProcess, GpuRow
from ..background import in_thread
from ..drawing.format import clean, cut_middle, fit, width_of
from ..widgets.gpu_lines import gib

_HEADER = ("pid", "user", "task", "GiB", "command")
_MOST = (10, 12, 28, 7)
"""Cells of all columns but the last, however long their contents."""
_HIDDEN = "cannot be seen from here"
_GONE = "gone"
_SIMULATED = "simulated: no process is on it"


def read_commands(pids: Sequence[int]) -> dict[int, str]:
    """Their command lines; may hang on a process that sleeps in the kernel."""
    return {pid: _command(pid) for pid in pids}


def _command(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return " ".join(process.cmdline()) or f"[{process.name()}]"
    except psutil.NoSuchProcess:
        return _GONE
    except (psutil.Error, OSError):
        return _HIDDEN


class GpuProcesses(ModalScreen[None]):
    """What a GPU's row tells, and the commands, which are looked up in a thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", show=False)]

    def __init__(self, gpu: GpuRow, look_up: Callable[[Sequence[int]], dict[int, str]] = read_commands) -> None:
        super().__init__()
        self._gpu = gpu
        self._look_up = look_up

    def compose(self) -> ComposeResult:
        with Vertical(id="gpu-processes"):
            yield Static(Content(_title(self._gpu)), id="gpu-processes-title")
            with ScrollableContainer():
                yield Static(Content(table(self._gpu.processes, {})), id="gpu-processes-table")

    def on_mount(self) -> None:
        pids = [process.pid for process in self._gpu.processes if process.pid]
        if pids:
            self._read(pids)

    @work
    async def _read(self, pids: Sequence[int]) -> None:
        commands = await in_thread(lambda: self._look_up(pids))
        if self.is_attached and self.is_running:
            self.query_one("#gpu-processes-table", Static).update(Content(table(self._gpu.processes, commands)))


def _title(gpu: GpuRow) -> str:
    name = clean(gpu.name)
    where = f"  {clean(gpu.pci_bus_id)}" if gpu.pci_bus_id else ""
    return f"GPU {gpu.index}  {name}{where}"


def table(processes: Sequence[GpuProcess], commands: Mapping[int, str]) -> str:
    """Pure. Columns as wide as their contents, the command last; what is not known is said to be so."""
    if not processes:
        return "nobody computes on it"
    rows: list[tuple[str, str, str, str, str]] = [_HEADER]
    for process in processes:
        used = "N/A" if process.used_mib is None else gib(process.used_mib)
        task = clean(process.task) or "-"
        if process.pid:
            command = clean(commands.get(process.pid, ""))
            rows.append((str(process.pid), clean(process.user) or "?", task, used, command))
        else:
            rows.append(("-", "-", task, used, _SIMULATED))
    widths = [min(most, max(width_of(row[at]) for row in rows)) for at, most in enumerate(_MOST)]
    return "\n".join(_row(row, widths) for row in rows)


def _row(row: tuple[str, str, str, str, str], widths: Sequence[int]) -> str:
    pid, user, task, used, command = row
    cells = (fit(pid, widths[0], right=True), fit(user, widths[1]), fit(cut_middle(task, widths[2]), widths[2]))
    return "  ".join((*cells, fit(used, widths[3], right=True), command))
