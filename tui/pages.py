"""The screens that can be opened from the dashboard. They are loaded after it has been drawn: most of what importing
costs is theirs."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .background import begun

if TYPE_CHECKING:
    from textual.screen import Screen

MODULES: Mapping[str, str] = {
    "errors": "ErrorsScreen",
    "timeline": "TimelineScreen",
    "graph": "GraphScreen",
    "curves": "CurvesScreen",
    "detail": "Detail",
    "logs": "LogScreen",
    "help": "Help",
    "gpu_processes": "GpuProcesses",
    "palette": "Palette",
}


def page(name: str, *args: Any, **more: Any) -> Screen[Any]:
    """A new one of these, by its module's name, with what its class takes."""
    return _class(name)(*args, **more)


def load_all() -> None:
    """Load them, and what searches logs, in a thread: an upgrade of gpudeck under an open screen must not break it.

    Then garbage is collected as ever, if it was not until now; what has been loaded is not looked through any more.
    """
    begun(_load_all)


def _load_all() -> None:
    try:
        for name in MODULES:
            _class(name)
        importlib.import_module(".widgets.log.hunt", __package__)
    finally:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()


def _class(name: str) -> Any:
    return getattr(importlib.import_module(f".screens.{name}", __package__), MODULES[name])
