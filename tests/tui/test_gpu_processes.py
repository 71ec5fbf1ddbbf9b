"""Who is on a GPU: the list, and the commands that are looked up beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from textual.app import App
from textual.widgets import Static

import gpudeck.tui
from gpudeck.engine.protocol.wire import GpuProcess
from tests.inside.tui import GpuProcesses, read_commands, table
from tests.tui.gpu_samples import gpu

DEADLINE_S = 20.0
NO_PID = 1 << 23
ON_IT = (
    GpuProcess(pid=11, user="ada", task="train-1", used_mib=2048),
    GpuProcess(pid=12, user="[red]eve\x1b[31m", used_mib=None),
)


class Rig(App[None]):
    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "gpu_panes.tcss"


def test_each_process_has_a_line_and_what_is_unknown_is_said_to_be_so() -> None:
    lines = table((*ON_IT, GpuProcess(pid=13)), {11: "python train.py\n--x"}).splitlines()

    assert lines[0].split() == ["pid", "user", "task", "GiB", "command"]
    assert lines[1].split() == ["11", "ada", "train-1", "2.0", "python", "train.py", "--x"]
    assert lines[2].split() == ["12", "[red]eve[31m", "-", "N/A"]
    assert lines[3].split() == ["13", "?", "-", "N/A"]


def test_long_names_leave_room_for_the_command() -> None:
    line = table((GpuProcess(pid=11, user="u" * 90, task="t" * 90, used_mib=1),), {11: "python"}).splitlines()[1]

    assert line.index("python") < 60


def test_what_is_made_up_for_a_simulated_gpu_has_its_task_and_says_so() -> None:
    lines = table((GpuProcess(pid=0, task="train-1", used_mib=2048),), {}).splitlines()

    assert lines[1].split()[:5] == ["-", "-", "train-1", "2.0", "simulated:"]


def test_a_gpu_that_nobody_uses_says_so() -> None:
    assert table((), {}) == "nobody computes on it"


def test_commands_are_those_of_the_processes() -> None:
    found = read_commands([os.getpid(), NO_PID])

    assert "python" in found[os.getpid()]
    assert found[NO_PID] == "gone"


async def test_commands_come_later_and_hold_up_nothing() -> None:
    gate = threading.Event()

    def slow(pids: Sequence[int]) -> dict[int, str]:
        gate.wait(DEADLINE_S)
        return dict.fromkeys(pids, "python [/]train.py")

    rig = Rig()
    async with rig.run_test(size=(120, 30)) as pilot:
        screen = GpuProcesses(gpu(processes=ON_IT), look_up=slow)
        await rig.push_screen(screen)
        text = screen.query_one("#gpu-processes-table", Static)
        assert "train-1" in str(text.content)
        gate.set()
        deadline = time.monotonic() + DEADLINE_S
        while "python [/]train.py" not in str(text.content):
            assert time.monotonic() < deadline
            await pilot.pause(0.02)
        await pilot.press("escape")
        assert rig.screen is not screen


async def test_leaving_does_not_wait_for_commands() -> None:
    gate = threading.Event()

    def hang(_: Sequence[int]) -> dict[int, str]:
        gate.wait(DEADLINE_S)
        return {}

    rig = Rig()
    async with rig.run_test(size=(80, 24)) as pilot:
        await rig.push_screen(GpuProcesses(gpu(processes=ON_IT), look_up=hang))
        await pilot.press("q")
    gate.set()
