from __future__ import annotations

import pytest

from tests.e2e.decks import Deck, Gate


@pytest.fixture
def gate(deck: Deck) -> Gate:
    return deck.gate()
