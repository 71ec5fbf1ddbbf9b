"""Refuses to start what this version can read but not do, so that nothing a file asks for is passed over."""

from __future__ import annotations

from ..core.spec import DeckFile
from ..errors import TaskFileError


def refuse_later(deck: DeckFile) -> None:
    """Raises TaskFileError with a line for each thing that this version cannot do."""
    if deck.later:
        raise TaskFileError(deck.later)
