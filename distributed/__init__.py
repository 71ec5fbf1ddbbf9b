"""For training scripts: the same script on one CPU, one GPU, several, and several hosts; thin on torch.

Importing this imports no torch; the functions that need it bring it along at their first use. Nothing of gpudeck's
engine is needed to use it, and the engine never imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .context import Context, is_main
from .errors import DistributedError, DistributedWarning
from .saying import print0, report
from .stopping import should_stop
from .task import Task, load_task

if TYPE_CHECKING:
    from .averaging import sync
    from .averaging import sync as sync_metrics
    from .checkpoints import latest, load, save
    from .feeding import loader
    from .feeding import loader as get_dataloader_for_distributed
    from .models import unwrap, wrap
    from .models import wrap as setup_distributed_models
    from .scaling import CacheClearer, effective_batch_size, perf_defaults, scale_lr, suggest_batch_size
    from .session import barrier, finish, init
    from .session import init as init_distributed
    from .stepping import Step, accumulate, autocast, scaler

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

_WITH_TORCH = {
    "averaging": ("sync",),
    "checkpoints": ("latest", "load", "save"),
    "feeding": ("loader",),
    "models": ("unwrap", "wrap"),
    "scaling": ("CacheClearer", "effective_batch_size", "perf_defaults", "scale_lr", "suggest_batch_size"),
    "session": ("barrier", "finish", "init"),
    "stepping": ("Step", "accumulate", "autocast", "scaler"),
}
_OTHER_NAMES = {
    "get_dataloader_for_distributed": "loader",
    "init_distributed": "init",
    "setup_distributed_models": "wrap",
    "sync_metrics": "sync",
}


def __getattr__(name: str) -> Any:
    plain = _OTHER_NAMES.get(name, name)
    for module, names in _WITH_TORCH.items():
        if plain in names:
            found = getattr(import_module(f".{module}", __name__), plain)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
