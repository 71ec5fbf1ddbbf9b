"""Prints in the formats of real programs, a row each in samples/prints.toml: how far the task is, in which unit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.inside.logs import Rank, Tracker, clean

PRINTS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "samples/prints.toml").read_text())["print"]


@pytest.mark.parametrize("row", PRINTS, ids=lambda row: row["program"])
def test_what_a_real_program_prints_is_its_progress(row: dict[str, Any]) -> None:
    tracker = Tracker(command=row.get("command", ""))
    for line in row["text"].split("\n"):
        tracker.feed(clean(line))
    known = "done" in row
    share = pytest.approx(row["done"] / row["total"], abs=1e-6) if known else None
    assert (tracker.share, tracker.rank) == (share, Rank[row["unit"].upper()] if known else None)
