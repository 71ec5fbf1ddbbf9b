"""Energy and GPU histories of attempts, with real engines and processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.e2e.decks import Deck, Gate, until
from tests.e2e.test_e2e_gpus import box
from tests.fakes.nvml_double.box import Box

__all__ = ["box"]

COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
GATED = """
    [deck]
    gpus = "{gpus}"
    [[task]]
    name = "train"
    command = "read _ <gate; echo acc=0.5"
    metrics.acc = {{ regex = 'acc=([0-9.]+)' }}
"""


def write(deck: Deck, gpus: str) -> None:
    """The task file; engines keep histories five times a second."""
    deck.tune("engine.attempts.usage", _FIRST_SAVE_S=0.2, SAVE_S=0.2)
    deck.write(GATED.format(gpus=gpus))


def history(deck: Deck) -> dict[str, Any]:
    path = deck.folder / "logs/train/attempt-1.gpu.json"
    return json.loads(path.read_text()) if path.exists() else {}


def test_the_drivers_counter_tells_what_an_attempt_used(deck: Deck, gate: Gate, box: Callable[[int], Box]) -> None:
    cards = box(1)
    calls = deck.folder / "calls"
    cards.set(calls=calls, **{"gpu.0.energy": 1_000_000})
    write(deck, "all")
    engine = deck.start()
    engine.started("train")
    until(lambda: history(deck).get("counters"))
    cards.set(**{"gpu.0.energy": 37_000_000})  # 36 kJ more
    read = calls.read_text().count(COUNTER)
    until(lambda: calls.read_text().count(COUNTER) >= read + 3)
    gate.let()
    ran = engine.finish()

    end = deck.record("train")["end"]
    joules, seconds = next(iter(history(deck)["drawn"].values()))
    assert 36_000 <= joules <= 36_001
    assert abs(end["mean_power_w"] - joules / seconds) < 0.1
    rounded = end["mean_power_w"] * 0.0005 / 3600 + 0.0006  # the duration is told in milliseconds
    assert abs(end["energy_wh"] - end["mean_power_w"] * end["duration_s"] / 3600) < rounded
    (ended,) = ran.ended("train")
    assert abs(ended["energy_wh"] - end["energy_wh"]) < 0.001
    assert abs(ran.events[-1]["energy_wh"] - end["energy_wh"]) < 0.001
    (row,) = json.loads(deck.command("table", "--format", "json").out)
    assert row["metrics"] == {"acc": 0.5, "energy_wh": end["energy_wh"]}


def test_a_history_goes_on_under_the_next_engine(deck: Deck, gate: Gate) -> None:
    write(deck, "sim:1")
    first = deck.start()
    first.started("train")
    until(lambda: len(history(deck).get("at_s", ())) > 2)
    first.kill()
    before = history(deck)["at_s"]

    second = deck.start()
    second.event("deck_opened")
    until(lambda: len(history(deck)["at_s"]) > len(before) + 2)
    gate.let()
    second.finish()

    assert history(deck)["at_s"][: len(before)] == before
    assert deck.record("train")["end"]["energy_wh"] > 0


def test_the_table_has_what_simulated_gpus_made_up_by_name_alone(deck: Deck, gate: Gate) -> None:
    write(deck, "sim:1")
    engine = deck.start()
    engine.started("train")
    until(lambda: len(history(deck).get("at_s", ())) > 1)
    gate.let()
    engine.finish()

    told = deck.command("table", "--format", "json")
    (row,) = json.loads(told.out)
    assert row["metrics"] == {"acc": 0.5}
    told = deck.command("table", "--metric", "acc,energy_wh", "--format", "json")
    (row,) = json.loads(told.out)
    assert "energy_wh: of simulated GPUs (SIM)" in told.err
    assert row["metrics"] == {"acc": 0.5, "energy_wh": deck.record("train")["end"]["energy_wh"]}
    (row,) = json.loads(deck.command("table", "--metric", "peak_mib", "--format", "json").out)
    assert row["metrics"] == {"peak_mib": deck.record("train")["end"]["peak_mib"]}
    shown = deck.command("show", "train").out
    assert ("  SIM 0  " in shown, " Wh, mean " in shown) == (True, True)
