"""`gpudeck gpus` for a deck."""

from __future__ import annotations

import json

from tests.commands.commands_rig import GATED, Commanded


def test_a_decks_gpus_are_shown_with_their_slots_and_tasks(deck: Commanded) -> None:
    deck.write(GATED.replace('gpus = "sim:2"', 'gpus = "sim:2"\nslots_per_gpu = 2'))
    gate = deck.gate()
    assert deck.go().code == 0
    for name in ("wait-1", "wait-2", "wait-3"):
        deck.until_state(name, "running")
    shown = deck.command("gpus", "-f", "tasks.toml").out.splitlines()
    assert shown[0].split() == ["GPU", "slots", "memory", "util", "tasks", "note"]
    assert [line.split()[:5] for line in shown[1:]] == [["SIM", "0", "2", "of", "2"], ["SIM", "1", "1", "of", "2"]]
    assert sum(line.count("wait-") for line in shown) == 3
    told = json.loads(deck.command("gpus", "--file", "tasks.toml", "--json").out)
    assert [gpu["slots"] for gpu in told["gpus"]] == [2, 2]
    gate.let(3)
    assert deck.command("stop", "--tasks").code == 0


def test_simulated_gpus_of_a_deck_without_an_engine_are_shown_too(deck: Commanded) -> None:
    deck.write(GATED)
    shown = deck.command("gpus", "--file", "tasks.toml")
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [["SIM", "0"], ["SIM", "1"]]
