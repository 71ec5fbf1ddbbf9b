"""GPU memory that is learned: tasks whose need is known share a card, one that does not fit beside them waits."""

from __future__ import annotations

import json

from gpudeck.engine.core.events import AttemptStarting
from tests.e2e.decks import Deck, Gate, until

GIB = 1024

TASKS = """
    [deck]
    gpus = "sim:2"
    slots_per_gpu = "auto"
    [[task]]
    name = "small-{i}"
    command = "echo {i}; read _ <gate"
    matrix.i = [0, 1, 2, 3, 4, 5]
    env.GPUDECK_SIM_MIB = "2048,20480@0.1"
    gpu_memory = "auto"
    [[task]]
    name = "big"
    command = "read _ <gate"
    env.GPUDECK_SIM_MIB = "61440"
    gpu_memory = "60GiB"
"""


def used_gib(deck: Deck) -> list[float]:
    """Of each card."""
    gpus = json.loads(deck.command("gpus", "-f", "tasks.toml", "--json").out)["gpus"]
    return [round((gpu["used_mib"] or 0) / GIB) for gpu in gpus]


def starts(deck: Deck) -> dict[str, AttemptStarting]:
    return {fact.task: fact for fact in deck.facts() if isinstance(fact, AttemptStarting)}


def test_small_tasks_share_the_cards_once_their_peak_is_known_and_a_big_one_waits(deck: Deck, gate: Gate) -> None:
    deck.write(TASKS)
    engine = deck.start()
    engine.started("small-0", "small-1")
    until(lambda: used_gib(deck) == [20, 20])
    assert engine.count("task_started") == 2, "alone on their cards"
    gate.let(2)
    engine.started("small-2", "small-3", "small-4", "small-5")
    until(lambda: sum(used_gib(deck)) == 80)
    assert max(used_gib(deck)) > 20
    assert "GiB free, needs 60.0 GiB" in deck.command("explain", "big").out
    shown = deck.command("show", "small-5").out
    assert "needs 21.0 GiB: peak 20.0 GiB of 2 earlier attempts of its entry plus 5 %" in shown
    gate.let(4)
    engine.started("big")
    gate.let(1)
    assert engine.finish().code == 0
    assert {name: fact.reserved_mib // GIB for name, fact in starts(deck).items() if name not in small(0, 1)} == {
        **dict.fromkeys(small(2, 3, 4, 5), 21), "big": 60,
    }  # fmt: skip


def small(*numbers: int) -> list[str]:
    return [f"small-{number}" for number in numbers]


def test_a_later_engine_knows_what_was_learned(deck: Deck, gate: Gate) -> None:
    deck.write(TASKS.replace("[0, 1, 2, 3, 4, 5]", "[0, 1]"))
    engine = deck.start()
    engine.started("small-0", "small-1")
    until(lambda: used_gib(deck) == [20, 20])
    gate.let(2)
    engine.started("big")
    gate.let(1)
    assert engine.finish().code == 0
    planned = json.loads(deck.command("plan", "tasks.toml", "--json", "--no-skip-existing").out)
    told = "needs 21.0 GiB: peak 20.0 GiB of 1 earlier attempt plus 5 %"
    assert {row["task"]: row["gpus_note"] for row in planned} == {
        **dict.fromkeys(small(0, 1), told), "big": "needs 60.0 GiB",
    }  # fmt: skip
    again = deck.start("--no-skip-existing", "--gpus", "sim:1")
    again.started("small-0", "small-1")
    gate.let(2)
    again.started("big")
    gate.let(1)
    assert again.finish().code == 0
