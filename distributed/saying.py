"""What rank 0 says for all: lines for people, and progress for gpudeck; without torch."""

from __future__ import annotations

import re
from typing import Any

from .context import is_main

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
        words.append(f"{name}={_number(value)}")
    return "::gpudeck " + " ".join(words)


def _number(value: Any) -> str:
    if isinstance(value, int):
        return str(int(value))
    return f"{float(value):.6g}"
