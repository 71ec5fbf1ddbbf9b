from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Gate, deck_in


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path) as deck:
        yield deck


@pytest.fixture
def gate(deck: Deck) -> Gate:
    return deck.gate()
