"""On a box with an NVIDIA GPU that nobody else uses: what gpudeck tells of it, and what its tasks see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.decks import Deck, deck_in


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path) as deck:
        yield deck


@pytest.fixture
def cards(deck: Deck) -> list[dict[str, Any]]:
    """What `gpudeck gpus` tells of this box."""
    deck.folder.mkdir(exist_ok=True)
    told = json.loads(deck.command("gpus", "--json").out)
    assert told["gpus"], f"no GPU here: {told['error'] or 'no driver'}"
    return told["gpus"]


def test_every_card_has_a_name_and_memory(cards: list[dict[str, Any]]) -> None:
    assert all(card["name"] and card["total_mib"] > 0 for card in cards)


def test_a_task_is_given_one_card_and_is_free_to_use_it(deck: Deck, cards: list[dict[str, Any]]) -> None:
    deck.write("""
        [[task]]
        name = "t"
        command = "echo $CUDA_VISIBLE_DEVICES >seen; nvidia-smi -L >listed"
    """)
    assert deck.run().states == {"t": "succeeded"}
    assert deck.text("seen").strip() in {card["uuid"] for card in cards}
    assert deck.text("seen").strip() in deck.text("listed")
