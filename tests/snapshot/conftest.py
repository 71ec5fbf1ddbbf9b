from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Gate, deck_in
from tests.snapshot.repositories import Repo, repo_in


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    """In a folder `exp`, so that a gate and what tasks write can lie beside it."""
    (tmp_path / "exp").mkdir()
    with deck_in(tmp_path / "exp") as deck:
        yield deck


@pytest.fixture
def gate(deck: Deck) -> Gate:
    """`../gate` of the deck's folder."""
    return deck.gate("../gate")


@pytest.fixture
def repo(deck: Deck) -> Repo:
    """The deck's folder, under git."""
    return repo_in(deck.folder, {"train.sh": "echo first\n", ".gitignore": "logs/\nout/\n"})
