"""The GPU panes on a screen: what is drawn again, where the cursor goes, what is posted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

import gpudeck.tui
from gpudeck.engine.protocol.wire import GpuRow
from tests.inside.tui import FULL, GpuPanes, Thresholds
from tests.tui.gpu_samples import gpu, gpus, lost

STYLES = Path(gpudeck.tui.__file__).parent / "styles"
SIZES = ((80, 24), (120, 40), (200, 60))


class Panes(GpuPanes):
    """Notes the lines that are drawn again. Its parts have its own name, as those of each such view."""

    COMPONENT_CLASSES = {part.replace("gpupanes", "panes") for part in GpuPanes.COMPONENT_CLASSES}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(thresholds=Thresholds())
        self.redrawn: list[int] = []

    def refresh_line(self, y: int) -> None:
        self.redrawn.append(y)
        super().refresh_line(y)


class Rig(App[None]):
    CSS_PATH = STYLES / "gpu_panes.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.panes = Panes()
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.panes

    @on(GpuPanes.Acted)
    @on(GpuPanes.OpenProcesses)
    def tell(self, message: Message) -> None:
        self.posted.append(message)

    def lines(self) -> list[str]:
        return [self.panes.render_line(y).text.rstrip() for y in range(self.panes.size.height)]

    def text(self) -> str:
        return "\n".join(self.lines())


@asynccontextmanager
async def panes_on(size: tuple[int, int] = (80, 24)) -> AsyncGenerator[tuple[Rig, Pilot[None]]]:
    """The panes on a screen of this size."""
    rig = Rig()
    async with rig.run_test(size=size) as pilot:
        rig.panes.focus()
        await pilot.pause()
        yield rig, pilot


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, 2, 8, 16])
async def test_any_number_of_gpus_is_shown_at_any_size(count: int, size: tuple[int, int]) -> None:
    async with panes_on(size) as (rig, pilot):
        rig.panes.show(gpus(count), 0.0)
        await pilot.pause()

        assert all(len(rig.panes.render_line(y).text) == rig.panes.size.width for y in range(rig.panes.size.height))
        assert rig.text().count("90%") == count


async def test_without_a_gpu_one_line_says_what_the_cpu_does() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show((), 0.0, cpu_slots=4, cpu_tasks=["prep-1", "prep[red]-2"])
        await pilot.pause()

        assert rig.lines()[0] == "No GPU here: 2 of 4 CPU slots busy: prep-1, prep[red]-2"
        await pilot.press("down", "enter", "D")
        assert rig.posted == []


async def test_a_gpu_that_is_lost_comes_back_with_a_gap_in_its_history() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(2), 0.0)
        rig.panes.show((gpu(0), lost(1)), 1.0)
        await pilot.pause()
        assert rig.text().count("LOST") == 1

        rig.panes.show(gpus(2, util_percent=10), 2.0)
        await pilot.pause()

        assert "LOST" not in rig.text()
        assert list(rig.panes.history.util("GPU-1", 9)) == [90, None, 10]


async def test_another_theme_is_seen_at_once() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(1), 0.0)
        await pilot.pause()
        before = rig.panes.render_line(1)

        rig.theme = "textual-light"
        await pilot.pause()

        assert rig.panes.render_line(1) != before


# -- what is drawn again ----------------------------------------------------------------------------------------------


async def test_only_the_lines_that_differ_are_drawn_again() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(2), 0.0)
        await pilot.pause()
        rig.panes.redrawn.clear()

        rig.panes.show((gpu(0), gpu(1, temperature_c=70)), 0.5)

        assert rig.panes.redrawn == [FULL + 3]


# -- the cursor -------------------------------------------------------------------------------------------------------


def place(rig: Rig) -> int:
    chosen = rig.panes.chosen
    assert chosen is not None
    return chosen.index


@pytest.mark.parametrize(
    ("keys", "index"),
    [
        (["down"], 2), (["right"], 1), (["down", "down"], 4), (["G"], 5), (["G", "down"], 5), (["G", "g"], 0),
        (["left"], 0), (["j", "k"], 0), (["right", "down", "up"], 1),
    ],
)  # fmt: skip
async def test_keys_move_among_two_columns(keys: list[str], index: int) -> None:
    async with panes_on((200, 60)) as (rig, pilot):
        rig.panes.show(gpus(6), 0.0)
        await pilot.pause()

        await pilot.press(*keys)

        assert place(rig) == index


async def test_the_cursor_stays_with_its_gpu() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(3), 0.0)
        await pilot.press("down", "down")
        rig.panes.show(tuple(GpuRow(index=place, uuid=uuid) for place, uuid in enumerate(("GPU-2", "GPU-0"))), 1.0)

        assert rig.panes.chosen is not None
        assert rig.panes.chosen.uuid == "GPU-2"


async def test_the_cursor_finds_another_gpu_when_its_own_is_gone() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(3), 0.0)
        await pilot.press("G")
        rig.panes.show(gpus(2), 1.0)

        assert place(rig) == 0


async def test_what_is_below_the_edge_is_scrolled_to() -> None:
    async with panes_on((80, 5)) as (rig, pilot):
        rig.panes.show(gpus(16), 0.0)
        await pilot.pause()

        await pilot.press("G")
        await pilot.pause()

        assert any(line.startswith("▌ 15") for line in rig.lines())


async def test_a_click_takes_the_cursor_to_the_gpu_under_it() -> None:
    async with panes_on((200, 60)) as (rig, pilot):
        rig.panes.show(gpus(6), 0.0)
        await pilot.pause()

        await pilot.click(GpuPanes, offset=(150, FULL + 2))

        assert place(rig) == 3


async def test_a_click_beside_all_gpus_does_nothing() -> None:
    async with panes_on((200, 60)) as (rig, pilot):
        rig.panes.show(gpus(3), 0.0)
        await pilot.pause()

        await pilot.click(GpuPanes, offset=(150, FULL + 2), times=2)

        assert (place(rig), rig.posted) == (0, [])


# -- what is posted ---------------------------------------------------------------------------------------------------


async def test_enter_and_a_double_click_ask_who_is_on_it() -> None:
    async with panes_on() as (rig, pilot):
        rig.panes.show(gpus(2), 0.0)
        await pilot.press("enter")
        await pilot.click(GpuPanes, offset=(5, FULL), times=2)
        await pilot.pause()

        assert rig.posted == [GpuPanes.OpenProcesses(gpu(0)), GpuPanes.OpenProcesses(gpu(1))]


@pytest.mark.parametrize("count", [2, 8])
async def test_without_an_engine_no_gpu_looks_as_if_it_were_current(count: int) -> None:
    async with panes_on() as (rig, pilot):
        told = gpus(count)
        rig.panes.show(told, 0.0)
        rig.panes.interrupt(1.0)
        await pilot.pause()
        assert rig.text().count("STALE") == count

        rig.panes.show(told, 2.0)
        await pilot.pause()
        assert "STALE" not in rig.text()
