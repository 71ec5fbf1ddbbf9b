from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.decks import Deck
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import KINDS, double


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Two cards behind a driver."""
    with double(KINDS[0], tmp_path, cards=2) as made:
        yield made


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with without_torch(tmp_path) as deck:
        yield deck


@contextmanager
def without_torch(folder: Path) -> Generator[Deck]:
    """A deck whose Python has no torch: importing it takes seconds. Without torch.py it has the real one."""
    deck = Deck(folder)
    deck.write("raise ModuleNotFoundError('none here', name='torch')\n", "torch.py")
    yield deck
    deck.close()
