"""What gpudeck tells a task about itself, from its environment; without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A script that was not started by gpudeck is attempt 1 of a task without a name, in the folder it runs in."""

    name: str = ""
    attempt: int = 1
    deck: str = ""
    log: str = ""
    """The file of this attempt's standard output."""
    run_dir: str = "."
    """The folder of the task's logs, the same for all of its attempts."""
    gpu_mem_mib: int | None = None
    """Memory of the smallest of its GPUs; None: not known."""
    shard: int = 0
    shards: int = 1


def load_task(environ: Mapping[str, str] = os.environ) -> Task:
    """The task that this process is an attempt of."""
    return Task(
        name=environ.get("GPUDECK_TASK", ""),
        attempt=_number(environ, "GPUDECK_ATTEMPT") or 1,
        deck=environ.get("GPUDECK_DECK", ""),
        log=environ.get("GPUDECK_LOG", ""),
        run_dir=environ.get("GPUDECK_RUN_DIR", "") or ".",
        gpu_mem_mib=_number(environ, "GPUDECK_GPU_MEM_MIB"),
        shard=_number(environ, "GPUDECK_SHARD") or 0,
        shards=_number(environ, "GPUDECK_SHARDS") or 1,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
