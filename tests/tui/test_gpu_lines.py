"""What panes say of a GPU, in six, four or one line; nothing is said to be zero that is not known."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from gpudeck.engine.protocol.wire import GpuMemory, GpuRow
from tests.inside.tui import FOLDED, FULL, SHORT, Drawn, GpuHistory, Thresholds
from tests.inside.tui import lines_lines_of as lines_of
from tests.tui.gpu_samples import NOTHING, gpu, lost

HEIGHTS = (FULL, SHORT, FOLDED)
HOSTILE = "a\x1b]0;x\x07b\u202ec[red]\x9b31m\n"


def text(row: GpuRow, height: int = FULL, width: int = 100, thresholds: Thresholds | None = None) -> str:
    drawn = Drawn(GpuHistory(), thresholds or Thresholds())
    return "\n".join("".join(span for span, _ in line).rstrip() for line in lines_of(row, height, width, drawn))


def styles(row: GpuRow, thresholds: Thresholds | None = None) -> dict[str, str]:
    """The style of each piece of a full pane."""
    lines = lines_of(row, FULL, 140, Drawn(GpuHistory(), thresholds or Thresholds()))
    return {span.strip(): style for line in lines for span, style in line}


# -- panes ------------------------------------------------------------------------------------------------------------


def test_memory_of_this_deck_alone_needs_no_split() -> None:
    assert "deck" not in text(gpu())


def test_memory_is_split_by_owner_where_others_have_some() -> None:
    memory = GpuMemory(deck_mib=10_240, mine_mib=2048, others_mib=4096, unexplained_mib=2048)

    shown = text(gpu(memory=memory))

    assert "█ deck 10.0  ▓ mine 2.0  ▒ others 4.0  ░ unexplained 2.0 GiB" in shown
    assert "█▓▒▒▒░░ " in shown.splitlines()[2]


def test_slots_are_shown_with_who_holds_them() -> None:
    assert "on it  1 a  2 free  3 c" in text(gpu(slots=3, slot_tasks=("a", "", "c"), tasks=("a", "c")))


def test_a_card_at_its_power_limit_is_no_warning() -> None:
    assert styles(gpu(throttle=("power",)))["slowed: power"] == "dim"


@pytest.mark.parametrize(
    ("temperature_c", "slowdown_c", "style"),
    [(60, 98, "plain"), (93, 98, "warn"), (92, 98, "plain"), (84, None, "plain"), (85, None, "warn")],
)
def test_a_temperature_is_judged_by_the_cards_own_limit(temperature_c: int, slowdown_c: int | None, style: str) -> None:
    found = styles(gpu(temperature_c=temperature_c, slowdown_c=slowdown_c))

    assert found.get(str(temperature_c)) == style or found.get(f"{temperature_c} °C") == style


def test_thresholds_can_be_other_ones() -> None:
    assert styles(gpu(temperature_c=60, slowdown_c=None), Thresholds(temperature_c=50))["60 °C"] == "warn"
    assert styles(gpu(), Thresholds(memory_percent=50))["20.0 / 40.0 GiB"] == "warn"


# -- what is not known ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", HEIGHTS)
def test_a_gpu_that_tells_nothing_shows_no_zero(height: int) -> None:
    shown = text(gpu(7, **NOTHING, tasks=(), slot_tasks=(), pci_bus_id=""), height)

    assert "N/A" in shown
    assert "0" not in shown.replace("A40", "")


def test_what_a_simulated_gpu_has_not_is_not_mentioned() -> None:
    clocks = dict.fromkeys(("sm_clock_mhz", "memory_clock_mhz", "fan_percent", "throttle"))

    shown = text(gpu(simulated=True, name="SIM 80GB", **clocks))

    assert "SIM" in shown
    assert "MHz" not in shown
    assert "fan" not in shown


@pytest.mark.parametrize("height", HEIGHTS)
def test_a_simulated_gpu_is_marked(height: int) -> None:
    assert "SIM" in text(gpu(simulated=True, name="SIM 80GB"), height, 80)


@pytest.mark.parametrize("height", HEIGHTS)
def test_a_lost_gpu_says_so_and_shows_no_readings(height: int) -> None:
    shown = text(lost(), height)

    assert "LOST" in shown
    assert "GPU is lost" in shown
    assert "N/A" not in shown


@pytest.mark.parametrize("height", HEIGHTS)
def test_stale_readings_are_told_to_be_old(height: int) -> None:
    shown = text(gpu(stale_since=1_700_000_000.0), height, 140)

    assert "STALE" in shown
    assert "silent since" in shown


@pytest.mark.parametrize(
    ("more", "badge"),
    [
        ({"note": "drained", "note_kind": "drained", "mark": "drain"}, "DRAINED"),
        ({"note": "alice, pid 4711, 31.0 GiB", "note_kind": "foreign", "tasks": (), "slot_tasks": ("",)}, "IN USE"),
        ({"note": "deck x of bob has it", "note_kind": "claimed", "tasks": (), "slot_tasks": ("",)}, "IN USE"),
        ({"note": "quarantined, tasks failed fast on it", "note_kind": "quarantined"}, "QUARANTINED"),
        ({"note": "alice joined GPU 0 at 02:14, pid 1, 1.0 GiB", "note_kind": "joined"}, "SHARED"),
        ({"mark": "take"}, "TAKEN"),
    ],
)
@pytest.mark.parametrize("height", HEIGHTS)
def test_what_stands_in_the_way_is_one_word(more: dict[str, Any], badge: str, height: int) -> None:
    assert badge in text(gpu(**more), height, 80)


def test_a_gpu_that_others_use_is_not_called_free() -> None:
    row = gpu(tasks=(), slot_tasks=("",), note="alice, pid 4711, 31.0 GiB", note_kind="foreign")

    assert all("free" not in text(row, height) for height in HEIGHTS)
    assert "alice, pid 4711" in text(row)


def test_errors_of_the_memory_are_told() -> None:
    assert "2 uncorrected ECC errors" in text(gpu(health=("2 uncorrected ECC errors since the driver was loaded",)))


# -- fitting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("width", [0, 1, 5, 20, 39, 55, 56, 77, 99, 100, 117, 200, 400])
@pytest.mark.parametrize("name", ["train-1", "名前" * 60, HOSTILE])
def test_a_pane_never_takes_more_than_its_room(height: int, width: int, name: str) -> None:
    for row in (gpu(tasks=(name,), slot_tasks=(name,), note=name, note_kind="joined"), lost(), gpu(**NOTHING)):
        lines = lines_of(row, height, width, Drawn(GpuHistory(), Thresholds()))

        assert len(lines) == height
        assert all(cell_len("".join(span for span, _ in line)) <= width for line in lines)


@pytest.mark.parametrize("height", HEIGHTS)
def test_nothing_from_outside_reaches_the_terminal_as_it_is(height: int) -> None:
    row = gpu(
        name=HOSTILE, tasks=(HOSTILE,), slot_tasks=(HOSTILE,), note=HOSTILE, note_kind="foreign", pci_bus_id=HOSTILE,
        health=(HOSTILE,), throttle=(HOSTILE,), power_w=None, missing={"power_w": HOSTILE},
    )  # fmt: skip

    shown = text(row, height, 400)

    assert all(char.isprintable() or char == "\n" for char in shown)
    assert shown.count("\n") == height - 1


def test_in_little_room_the_task_is_more_important_than_what_slows_the_card() -> None:
    shown = text(gpu(throttle=("power",), note="alice joined GPU 0", note_kind="joined"), FOLDED, 77)

    assert "SHARED  train-1" in shown
    assert "slowed" not in shown


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("row", [gpu(), gpu(throttle=("thermal",)), lost()])
def test_what_no_engine_tells_any_more_is_muted(row: GpuRow, height: int) -> None:
    lines = lines_of(row, height, 100, Drawn(GpuHistory(), Thresholds(), told=False))
    assert {style for line in lines for _, style in line} <= {"dim", "track", "rule"}
