from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Commanded]:
    """A deck in a folder of its own; none of its engines outlives the test."""
    deck = Commanded(tmp_path)
    try:
        yield deck
    finally:
        deck.close()
    assert deck.engines_alive() == []
