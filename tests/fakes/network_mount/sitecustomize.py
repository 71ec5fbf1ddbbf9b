"""A kernel to which folders are on a file server: /proc/self/mountinfo is read with lines for those that
GPUDECK_TEST_NETWORK names. Python imports this by itself where its folder is on PYTHONPATH."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any

_FOLDERS = os.environ.get("GPUDECK_TEST_NETWORK", "")
_open: Any = builtins.open


def _opened(file: Any, *arguments: Any, **options: Any) -> Any:
    if file != "/proc/self/mountinfo":
        return _open(file, *arguments, **options)
    with _open(file, "rb") as real:
        told = real.read()
    for folder in _FOLDERS.split(":"):
        told += f"999 1 0:99 / {folder} rw,relatime - nfs4 fileserver:/home rw\n".encode()
    return io.BytesIO(told)


if _FOLDERS:
    builtins.open = _opened
