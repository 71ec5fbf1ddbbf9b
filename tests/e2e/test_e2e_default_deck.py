"""The deck that comes with gpudeck: in small, and whole, as CI runs it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, deck_in
from tests.examples.rig import run

ROOT = Path(__file__).parents[2]
RATES = ["0.125", "0.25", "0.375", "0.50", "0.625", "0.75"]
TRAININGS = {f"train-{kind}-{rate}" for kind in ("sym", "asym") for rate in RATES}


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path) as deck:
        shutil.copy(ROOT / "tasks.toml", tmp_path)
        shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        yield deck


@pytest.mark.torchrun
def test_the_default_deck_succeeds_leaves_its_summary_and_is_done(copy: Deck) -> None:
    tasks = [*TRAININGS, "gather"]
    ran = run(copy)
    assert ran.code == 0, ran.out
    assert ran.states == dict.fromkeys(tasks, "succeeded")
    assert ran.started[-1] == "gather"
    assert "asym" in copy.text("output/summary.md")
    assert (copy.folder / "output/accuracy.png").stat().st_size > 1000
    assert copy.run().states == dict.fromkeys(tasks, "cached")


def test_the_default_deck_in_small_goes_on_after_ctrl_c_leaves_its_summary_and_is_done(copy: Deck) -> None:
    small = ("--profile", "smoke", "--set", "epochs=1", "--set", "rates=[0.125]")
    tasks = ["train-sym-0.125", "train-asym-0.125", "gather"]
    engine = copy.start(*small)
    engine.started("train-sym-0.125")
    engine.signal(signal.SIGINT)
    assert engine.finish().code == 130
    ran = copy.run(*small)
    assert ran.states == dict.fromkeys(tasks, "succeeded"), ran.out
    assert ran.started[-1] == "gather"
    assert "asym" in copy.text("output/smoke/summary.md")
    assert (copy.folder / "output/smoke/accuracy.png").stat().st_size > 1000
    assert copy.run(*small).states == dict.fromkeys(tasks, "cached")
