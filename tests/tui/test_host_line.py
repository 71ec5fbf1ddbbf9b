"""The host line: what it says, and that a disk that does not answer holds up nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

import gpudeck.tui
from tests.inside.tui import (
    Disk,
    DiskWatch,
    HostLine,
    HostReading,
    Thresholds,
    host,
    host_parts,
    look_at_disk,
    pack,
    read_host,
)

DEADLINE_S = 20.0
GIB = 1 << 30
BUSY = HostReading(
    cpu_percent=42, cores=16, load=7.5, memory_used=100 * GIB, memory_total=128 * GIB,
    disk=Disk(free=500 * GIB, total=1000 * GIB),
)  # fmt: skip


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def said(reading: HostReading, width: int = 120) -> str:
    return "".join(text for text, _ in pack(host_parts(reading, Thresholds()), width))


def warned(reading: HostReading, thresholds: Thresholds | None = None) -> list[str]:
    parts = host_parts(reading, thresholds or Thresholds())
    return [text for part in parts for text, style in part.spans if style == "warn" and text]


# -- what is said -----------------------------------------------------------------------------------------------------


def test_the_line_tells_cpu_memory_disk_and_load() -> None:
    assert said(BUSY) == "CPU 42% of 16  memory 100.0 GiB of 128.0 GiB  logs 500.0 GiB free  load 7.5"


def test_what_is_not_known_is_not_zero() -> None:
    assert said(HostReading()) == "CPU N/A  memory N/A  logs N/A  load N/A"


def test_in_little_room_the_least_important_goes_first() -> None:
    assert said(BUSY, 60).startswith("CPU 42% of 16  memory 100.0 GiB of 128.0 GiB")
    assert "load" not in said(BUSY, 70)


def test_a_disk_that_does_not_answer_is_told_with_its_last_word() -> None:
    silent = HostReading(disk=Disk(free=500 * GIB, total=1000 * GIB, problem="does not answer"))

    assert "logs 500.0 GiB free, does not answer" in said(silent)


@pytest.mark.parametrize(
    ("reading", "thresholds", "words"),
    [
        (BUSY, Thresholds(), []),
        (BUSY, Thresholds(memory_percent=70), ["100.0 GiB"]),
        (BUSY, Thresholds(disk_percent=50), ["500.0 GiB free"]),
        (HostReading(disk=Disk(problem="Permission denied")), Thresholds(), ["Permission denied"]),
    ],
)
def test_a_warning_is_given_from_the_threshold_on(
    reading: HostReading, thresholds: Thresholds, words: list[str]
) -> None:
    assert warned(reading, thresholds) == words


# -- reading ----------------------------------------------------------------------------------------------------------


def test_this_host_can_be_read(tmp_path: Path) -> None:
    reading = read_host(look_at_disk(str(tmp_path)))

    assert reading.cores > 0
    assert 0 < (reading.memory_used or 0) <= (reading.memory_total or 0)
    assert (reading.disk.total or 0) > 0


def test_cores_and_memory_are_those_that_tasks_are_admitted_by(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        reading = read_host(look_at_disk(str(tmp_path)))
    finally:
        os.sched_setaffinity(0, allowed)

    assert reading.cores == 1
    assert reading.memory_total == host.mem_total_mib() << 20


def test_a_folder_that_does_not_exist_yet_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    assert look_at_disk(str(tmp_path / "not" / "yet")).total == look_at_disk(str(tmp_path)).total


def test_a_path_through_a_file_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert look_at_disk(str(tmp_path / "file" / "logs")).problem == "Not a directory"


def test_a_disk_that_never_answers_is_told_of_and_holds_up_nothing(tmp_path: Path) -> None:
    gate = threading.Event()

    def hang(_: str) -> Disk:
        gate.wait(DEADLINE_S)
        return Disk(1, 2)

    now = [0.0]
    watch = DiskWatch(str(tmp_path), look=hang, now=lambda: now[0])
    try:
        assert watch.seen() == Disk()
        now[0] = 100.0
        assert watch.seen().problem == "does not answer"
    finally:
        gate.set()
    until(lambda: watch.seen() == Disk(1, 2))


# -- on a screen ------------------------------------------------------------------------------------------------------


class Rig(App[None]):
    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "gpu_panes.tcss"

    def compose(self) -> ComposeResult:
        yield HostLine(thresholds=Thresholds())


async def test_the_line_reads_by_itself_once_it_knows_where_the_logs_are(tmp_path: Path) -> None:
    rig = Rig()
    async with rig.run_test(size=(100, 3)) as pilot:
        line = rig.query_one(HostLine)
        line.show(str(tmp_path / "logs"))
        deadline = time.monotonic() + DEADLINE_S
        while "free" not in str(line.render()):
            assert time.monotonic() < deadline
            await pilot.pause(0.02)


async def test_what_a_disk_says_is_never_markup() -> None:
    rig = Rig()
    async with rig.run_test(size=(100, 3)) as pilot:
        line = rig.query_one(HostLine)
        line.show_reading(HostReading(disk=Disk(problem="[/] broken [red]")))
        await pilot.pause()

        assert "[/] broken [red]" in str(line.render())
