"""What a client sees of GPUs of the NVML double through an engine: readings, losses, a driver that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudeck.engine.protocol.wire import GpuRow
from tests.e2e.decks import Deck
from tests.fakes.live_deck import DEADLINE_S, LiveDeck, live_deck
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside
from tests.inside.e2e import Connection

DECK = """
    [deck]
    slots_per_gpu = 2
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1]
    command = "read _ <gate"
"""


class Watched:
    """A deck whose two cards a test changes while a client looks on."""

    def __init__(self, deck: LiveDeck, box: Box, client: Connection) -> None:
        self.deck = deck
        self.box = box
        self.client = client
        self.changes = 0
        """Of the GPUs, as the client was told."""
        client.watch()
        client.wait_for_picture()

    def gpu(self, index: int) -> GpuRow:
        assert self.client.picture is not None
        return self.client.picture.gpus[index]

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.client.picture and self.client.picture.gpus
            for message in self.client.messages(timeout_s=0.1):
                self.changes += getattr(message, "gpus", None) is not None
                break


@pytest.fixture(params=[0.5])
def watched(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Watched]:
    """The parameter: after how many seconds readings are stale."""
    box = Box(tmp_path_factory.mktemp("nvml") / "box.txt", 2)
    code, environment = outside(box)
    assert not code, "an engine of its own finds the double as a library: this needs a C compiler"
    with live_deck(tmp_path, DECK) as deck:
        deck.env |= {name: environment[name] for name in ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE")}
        deck.tune("engine.core.devices", STALE_S=request.param)
        deck.start()
        with deck.client() as client:
            yield Watched(deck, box, client)
            box.release()


@pytest.mark.parametrize("watched", [DEADLINE_S], indirect=True)
def test_who_watches_sees_clocks_limits_and_what_slows_a_card(watched: Watched) -> None:
    watched.box.set(**{"gpu.1.sm": 1500, "gpu.1.throttle": 0x60, "gpu.1.util": 77, "gpu.1.temp": 97})

    watched.until(lambda: watched.gpu(1).throttle and watched.gpu(1).temperature_c == 97)
    watched.until(lambda: watched.gpu(1).util_percent == 77 and watched.gpu(1).sm_clock_mhz == 1500)
    watched.until(lambda: watched.gpu(1).slot_tasks == ("", ""))

    row = watched.gpu(1)
    assert (row.sm_clock_mhz, row.sm_clock_max_mhz, row.throttle) == (1500, 1740, ("hw thermal", "thermal"))
    assert (row.util_percent, row.temperature_c, row.slowdown_c) == (77, 97, 98)
    assert (row.power_limit_w, row.pci_bus_id) == (300.0, "0000:3c:00.0")
    assert row.missing["fan_percent"] == "not supported"


def test_status_shows_no_old_readings_as_if_they_were_of_now(watched: Watched) -> None:
    watched.box.set(**{"gpu.0.util": 77})
    watched.until(lambda: watched.gpu(0).util_percent == 77)
    assert "77 %" in Deck(watched.deck.folder, env=watched.deck.env).command("status").out
    watched.box.hang("all")
    watched.until(lambda: watched.gpu(0).stale_since is not None)

    for words in (("status",), ("gpus", "-f", "tasks.toml")):
        shown = Deck(watched.deck.folder, env=watched.deck.env).command(*words).out
        assert "77 %" not in shown
        assert "silent since " in shown


@pytest.mark.parametrize("watched", [DEADLINE_S], indirect=True)
def test_gpus_that_do_nothing_new_are_not_told_again(watched: Watched) -> None:
    def quiet_second() -> bool:
        watched.changes, end = 0, time.monotonic() + 1.0
        watched.until(lambda: time.monotonic() > end)
        return not watched.changes

    watched.until(lambda: watched.gpu(0).sm_clock_mhz and watched.gpu(1).sm_clock_mhz)
    assert any(quiet_second() for _ in range(5)), "what they begin with is told in time"
    assert quiet_second()
