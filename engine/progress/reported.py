"""What attempts that are over reported last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..logs.record import last_metrics

Told = tuple[str, int, Mapping[str, float]]
"""Task, attempt, its metrics."""


def read_all(files: Sequence[tuple[str, int, str]]) -> list[Told]:
    """Of attempts (task, number, path of attempt-N.json) that reported anything."""
    found = ((name, number, last_metrics(path)) for name, number, path in files)
    return [told for told in found if told[2]]
