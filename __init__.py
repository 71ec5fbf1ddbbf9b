"""gpudeck runs ML training on the GPUs of one box: a task file, an engine that loses nothing, a screen.

Programs use decks through `Deck` and `AsyncDeck`; docs/python.md tells how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine.api import AsyncDeck, Deck, DeckError, NewTask, State

__version__ = "0.1.0"
__all__ = ["AsyncDeck", "Deck", "DeckError", "NewTask", "State", "__version__"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: commands, engines and training scripts import gpudeck, too, and need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .engine import api

    return getattr(api, name)
