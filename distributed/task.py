"""What gpudeck tells a task about itself, and what rank 0 tells gpudeck and people; without torch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .session import is_main


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


_NAME = re.compile(r"[A-Za-z][^\s=]{0,63}")
_MOST = 63


def print0(*values: object, flush: bool = True, **options: Any) -> None:
    """`print` on rank 0, nothing on the others."""
    if is_main():
        print(*values, flush=flush, **options)


def report(step: int, total: int, **metrics: Any) -> None:
    """Print `::gpudeck progress=3/100 loss=0.12` on rank 0: what gpudeck shows as progress and keeps as metrics.

    *step* of *total* steps (or epochs) are done. *metrics* are numbers or tensors of one element; a name has no spaces
    and at most 64 characters. The values are rank 0's: `sync()` them first where ranks differ. Raises ValueError.
    """
    if is_main():
        print(line(step, total, metrics), flush=True)


def line(step: int, total: int, metrics: dict[str, Any]) -> str:
    if total <= 0 or not 0 <= step <= total:
        raise ValueError(f"step {step} of {total}: a share that is done goes from 0 to all of it")
    if len(metrics) > _MOST:
        raise ValueError(f"{len(metrics)} metrics in one line: {_MOST} are read")
    words = [f"progress={step}/{total}"]
    for name, value in metrics.items():
        if name == "progress" or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a metric: a letter first, no spaces, at most 64 characters")
        words.append(f"{name}={_as_text(value)}")
    return "::gpudeck " + " ".join(words)


def _as_text(value: Any) -> str:
    if isinstance(value, int):
        return str(int(value))
    return f"{float(value):.6g}"
