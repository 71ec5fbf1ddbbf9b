"""`gpudeck gpus` on a box whose driver hangs."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.decks import Deck
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside


def test_gpus_says_that_it_waits_for_a_driver_that_hangs_and_gives_it_up(tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", cards=2)
    box.hang("all")
    code, environment = outside(box)
    assert not code, "a command of its own finds the double as a library: this needs a C compiler"
    deck = Deck(tmp_path)
    deck.env |= {name: environment[name] for name in ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE")}
    deck.tune("cli.commands.gpus", PATIENCE_S=1.0, QUIET_S=0.1)

    done = deck.command("gpus")

    assert done.code == 3
    assert "the NVIDIA driver has not answered yet; waiting up to 1 s" in done.err
    assert "NVML gave no answer in 1 s" in done.err
