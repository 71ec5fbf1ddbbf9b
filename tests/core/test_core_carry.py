"""What no fact tells of a deck goes over to the one that takes its place: none of it is forgotten by an edit."""

from __future__ import annotations

from collections import deque
from dataclasses import fields
from typing import Any

import pytest
from core_world import World, cards, deck_file, spec

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.learned import Entry
from gpudeck.engine.core.reload import carry_gpus, carry_memory

TOLD_OF_GPUS = {
    "uuid", "index", "order", "slots", "model", "links", "simulated", "holders", "exclusive", "mark", "quarantine",
    "surplus", "node",
}  # fmt: skip
"""By the file, the box or facts."""
TOLD_OF_ENTRIES = {"name", "tasks", "running", "rekeyed"}
LIVE_OF_DECK = (
    "memory_mib", "memory_at", "memory_most_mib", "memory_total_mib", "paused", "stopping", "unwritable",
    "no_starts_until", "wall_ahead", "quiet",
)  # fmt: skip


def fresh() -> Deck:
    world = World(deck_file((spec("a"), spec("b"))), lambda: cards(1), cores=8, on_cpu=False)
    return world.deck


def other_than(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 41
        case str():
            return f"{value}x"
        case dict():
            return {41: 42}
        case set():
            return {"41"}
        case deque():
            return deque([41.0])
        case _:
            return 41


def carried(holder_of: Any, name: str) -> tuple[Any, Any]:
    """A field of the old deck, set to what it never is by itself, and what the new deck has of it."""
    old, new = fresh(), fresh()
    given = other_than(getattr(holder_of(old), name))
    setattr(holder_of(old), name, given)
    carry_gpus(old, new)
    carry_memory(old, new)
    return given, getattr(holder_of(new), name)


@pytest.mark.parametrize("name", [one.name for one in fields(Gpu) if one.name not in TOLD_OF_GPUS])
def test_what_was_read_of_a_gpu_goes_over(name: str) -> None:
    given, found = carried(lambda deck: deck.gpus["GPU-0"], name)
    assert found == given


@pytest.mark.parametrize("name", [one.name for one in fields(Entry) if one.name not in TOLD_OF_ENTRIES])
def test_what_an_entry_has_learned_goes_over(name: str) -> None:
    given, found = carried(lambda deck: next(iter(deck.entries.values())), name)
    assert found == given


@pytest.mark.parametrize("name", LIVE_OF_DECK)
def test_how_the_box_and_the_deck_stand_goes_over(name: str) -> None:
    given, found = carried(lambda deck: deck, name)
    assert found == given
