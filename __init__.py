"""gpudeck runs ML training on the GPUs of one box: a task file, an engine that loses nothing, a screen.

Programs use decks through `Deck` and `AsyncDeck`; docs/programs.md tells how.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, which every command would load
if TYPE_CHECKING:
    from .engine.api import AsyncDeck, Deck, DeckError, NewTask, State
    from .engine.executor import Executor, Job, JobFailedError

__version__ = "0.1.0"
__all__ = ["AsyncDeck", "Deck", "DeckError", "Executor", "Job", "JobFailedError", "NewTask", "State", "__version__"]
_OF_EXECUTOR = ("Executor", "Job", "JobFailedError")


def __getattr__(name: str) -> object:
    """Loaded when it is asked for: commands, engines and training scripts import gpudeck, too, and need none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "executor" if name in _OF_EXECUTOR else "api"
    return getattr(import_module(f".engine.{module}", __name__), name)
