"""Decks used at random; `python -m tests.random_use --minutes 60` goes on with other seeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.random_use.drive import carry_out
from tests.random_use.plan import plan, read, said
from tests.random_use.reduce import reduced

pytestmark = pytest.mark.soak

ACTS = 14
GIVEN = os.environ.get("GPUDECK_RANDOM_ACTS", "")
"""What a failed test has printed."""
SEED = os.environ.get("GPUDECK_RANDOM_SEED", "0" if GIVEN else "")
SEEDS = [int(SEED)] if SEED else [1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_a_user_does_nothing_runs_twice_or_is_lost_and_everybody_is_told_the_truth(
    tmp_path: Path, seed: int
) -> None:
    carry_out(tmp_path / "deck", read(GIVEN) or plan(seed, ACTS))


def test_the_same_seed_gives_the_same_acts() -> None:
    assert plan(7, 50) == plan(7, 50)
    assert plan(7, 50) != plan(8, 50)


def test_acts_that_were_printed_are_the_same_when_they_are_read() -> None:
    acts = plan(7, 200)
    assert read(said(acts)) == acts


def test_a_plan_is_reduced_to_the_acts_that_matter() -> None:
    acts = [(str(number),) for number in range(20)]
    assert reduced(acts, lambda some: ("3",) in some and ("17",) in some) == [("3",), ("17",)]
