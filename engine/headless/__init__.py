"""What a headless run prints: lines, the live display, JSON lines, JUnit, GitHub's annotations. Made of nothing but the
messages of `protocol.messages`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .output import HeadlessOptions, HeadlessOutput, LogOutput, WatchOutput

__all__ = ["HeadlessOptions", "HeadlessOutput", "LogOutput", "WatchOutput"]


def __getattr__(name: str) -> Any:
    """Who prints a line or two needs nothing of what prints a whole run."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import output

    return getattr(output, name)
