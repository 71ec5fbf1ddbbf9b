"""Logs of the ranks that a launcher starts: which there are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping


def rank_logs(out_log: str) -> Mapping[int, tuple[str, str]]:
    """Paths of stdout and stderr of each rank that has logs of its own, by rank; equal where they are merged."""
    folder, name = os.path.split(out_log)
    stem = name.removesuffix(".log")
    pattern = re.compile(re.escape(stem) + r"\.rank([1-9]\d{0,4})\.log")
    try:
        found = sorted(int(match[1]) for each in os.listdir(folder or ".") if (match := pattern.fullmatch(each)))
    except OSError:
        return {}
    paths = {rank: f"{folder}/{stem}.rank{rank}" for rank in found}
    return {rank: (f"{path}.log", _err_of(path)) for rank, path in paths.items()}


def _err_of(path: str) -> str:
    return f"{path}.err" if os.path.exists(f"{path}.err") else f"{path}.log"
