"""For training scripts: the same script on one CPU, one GPU, several, and several hosts; thin on torch.

Importing this imports no torch; the functions that need it bring it along at their first use. Nothing of gpudeck's
engine is needed to use it, and the engine never imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import DistributedError, DistributedWarning
from .session import Context, barrier, finish, init, is_main
from .session import init as init_distributed
from .stopping import should_stop
from .task import Task, load_task, print0, report

if TYPE_CHECKING:
    from .averaging import sync
    from .averaging import sync as sync_metrics
    from .checkpoints import latest, load, save
    from .feeding import loader
    from .feeding import loader as get_dataloader_for_distributed
    from .models import unwrap, wrap
    from .models import wrap as setup_distributed_models
    from .training import (
        CacheClearer,
        Step,
        accumulate,
        autocast,
        effective_batch_size,
        perf_defaults,
        scale_lr,
        scaler,
        suggest_batch_size,
    )

__all__ = [
    "CacheClearer",
    "Context",
    "DistributedError",
    "DistributedWarning",
    "Step",
    "Task",
    "accumulate",
    "autocast",
    "barrier",
    "effective_batch_size",
    "finish",
    "get_dataloader_for_distributed",
    "init",
    "init_distributed",
    "is_main",
    "latest",
    "load",
    "load_task",
    "loader",
    "perf_defaults",
    "print0",
    "report",
    "save",
    "scale_lr",
    "scaler",
    "setup_distributed_models",
    "should_stop",
    "suggest_batch_size",
    "sync",
    "sync_metrics",
    "unwrap",
    "wrap",
]

_LATER = {
    "averaging": ("sync",),
    "checkpoints": ("latest", "load", "save"),
    "feeding": ("loader",),
    "models": ("unwrap", "wrap"),
    "training": (
        "CacheClearer",
        "Step",
        "accumulate",
        "autocast",
        "effective_batch_size",
        "perf_defaults",
        "scale_lr",
        "scaler",
        "suggest_batch_size",
    ),
}
_OTHER_NAMES = {
    "get_dataloader_for_distributed": "loader",
    "setup_distributed_models": "wrap",
    "sync_metrics": "sync",
}


def __getattr__(name: str) -> Any:
    plain = _OTHER_NAMES.get(name, name)
    for module, names in _LATER.items():
        if plain in names:
            found = getattr(import_module(f".{module}", __name__), plain)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
