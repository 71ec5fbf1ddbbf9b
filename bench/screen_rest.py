"""The screen at rest with 8 GPUs, nvitop beside it on the same GPUs at the same time.

The GPUs are those of the tests' NVML double; their readings change once a second, and a task runs on each. A reading
costs nothing there but the call, for both. What the screen shows its engine has read: that is told too.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import peers
import psutil
from common import Report, disk, folder_on
from screen_rig import GPUS, client, deck, first_picture, name, screen
from terminal import DEADLINE_S, Terminal, cpu_percents, drain, memory_mb

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tests.fakes.nvml_double.box import VARIABLE, Box
from tests.fakes.nvml_double.build import build

_LAST_GPU = f"{GPUS - 1} N/A"
"""What nvitop writes of it: number and fan."""
_SETTLED_S = 3.0


class GpuBox(threading.Thread):
    """GPUs that are idle until a task runs on them; then their readings change once a second."""

    def __init__(self, folder: str) -> None:
        super().__init__(daemon=True)
        build(Path(folder))
        self._box = Box(Path(folder) / "box.txt", GPUS)
        self._box.set(**{f"gpu.{card}.uuid": f"GPU-bench-{os.getpid()}-{card}" for card in range(GPUS)})
        self._dice = random.Random(1)
        self._busy: set[int] = set()
        self._one_writes = threading.Lock()
        self.env: Mapping[str, str] = {
            **os.environ, VARIABLE: str(self._box.path), "LD_LIBRARY_PATH": folder, "GPUDECK_LOCK_DIR": folder,
        }  # fmt: skip
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(1.0):
            with self._one_writes:
                self._change()

    def occupy(self, pids: Mapping[int, int]) -> None:
        """By number of the GPU."""
        with self._one_writes:
            for card, pid in pids.items():
                self._box.processes(card, f"{pid} 30000 C")
                self._busy.add(card)
            self._change()

    def _change(self) -> None:
        roll = self._dice.randrange
        values: dict[str, object] = {}
        for card in self._busy:
            values[f"gpu.{card}.util"] = roll(80, 101)
            values[f"gpu.{card}.used"] = roll(30_000, 32_000)
            values[f"gpu.{card}.temp"] = roll(60, 70)
            values[f"gpu.{card}.power"] = roll(250_000, 300_000)
            values[f"gpu.{card}.sm"] = roll(1500, 1741)
        self._box.set(**values)


@contextlib.contextmanager
def gpu_box() -> Generator[GpuBox]:
    with folder_on(disk()) as folder:
        box = GpuBox(folder)
        box.start()
        try:
            yield box
        finally:
            box.stop.set()
            box.join()


def at_rest(report: Report, rounds: int, seconds: float) -> list[float]:
    """Returns how many ms the screen took to leave, each time."""
    if shutil.which("cc") is None:
        report.absent("at rest", "C compiler")
        return []
    other = peers.nvitop()
    if other is None:
        report.absent("at rest, nvitop beside it", "nvitop", peers.NVITOP_REMEDY)
    with gpu_box() as box, deck(100, '["sleep", "100000"]', gpus="all") as folder:
        leaves_ms = _pictures(report, box, folder, other, rounds)
        terminal = screen(folder, env=box.env)
        terminal.until(name(0))
        peer = Terminal((other,), folder, box.env) if other else None
        leaves_ms.append(_costs(report, folder, terminal, peer, seconds))
    return leaves_ms


def _pictures(report: Report, box: GpuBox, folder: str, other: str | None, rounds: int) -> list[float]:
    """First pictures and leaving, in turns. The first screen starts the engine: that one is not counted."""
    first_picture(screen(folder, env=box.env), name(0))
    _occupy(box, folder)
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(rounds):
        ours.append(first_picture(screen(folder, env=box.env), name(0)))
        if other:
            theirs.append(first_picture(Terminal((other,), folder, box.env), _LAST_GPU))
    for place, what in enumerate(("first picture, 8 GPUs; nvitop", "leave, 8 GPUs; nvitop")):
        mine, other_ms = [each[place] for each in ours], [each[place] for each in theirs]
        report.row(what, mine, other_ms or None, "ms", ("<= 350 ms", "<= 300 ms")[place])
    return [left_ms for _, left_ms in ours]


def _occupy(box: GpuBox, folder: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    with client(folder) as connection:
        picture = connection.wait_for_picture()
        while len(running := [row for row in picture.rows.values() if row.pid and row.gpus]) < GPUS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(running)} tasks run")
            for _ in connection.messages(timeout_s=1.0):
                break
    box.occupy({row.gpus[0]: row.pid for row in running})


def _costs(report: Report, folder: str, terminal: Terminal, peer: Terminal | None, seconds: float) -> float:
    both = (terminal,) if peer is None else (terminal, peer)
    drain(both, _SETTLED_S)
    sent: list[int] = []
    groups = [_engine(folder), *([each.pid] for each in both)]
    engine, *screens = cpu_percents(groups, lambda: sent.extend(drain(both, seconds)))
    memory = [memory_mb(each) for each in both]
    leave_ms = terminal.quit() * 1e3
    if peer is not None:
        peer.quit()
    rows = (
        ("CPU at rest, 8 GPUs; nvitop", screens, "%", "<= 3 %"),
        ("the same with its engine; nvitop", [screens[0] + engine, *screens[1:]], "%", ""),
        ("memory at rest; nvitop", memory, "MB", "<= 130 MB"),
        ("sent a second at rest; nvitop", [count / seconds / 1000 for count in sent], "kB", ""),
    )
    for what, (mine, *theirs), unit, budget in rows:
        report.row(what, mine, theirs or None, unit, budget)
    return leave_ms


def _engine(folder: str) -> list[int]:
    """The engine and its helpers; tasks have sessions of their own."""
    with client(folder) as connection:
        pid = connection.hello.pid
    children = [process.pid for process in psutil.Process(pid).children(recursive=True)]
    return [pid, *(child for child in children if os.getsid(child) == os.getsid(pid))]
