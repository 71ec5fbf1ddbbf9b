"""The deck that comes with gpudeck: whole, as CI runs it, and in small."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Ran, deck_in

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RATES = ["0.125", "0.25", "0.375", "0.50", "0.625", "0.75"]
TRAININGS = {f"train-{kind}-{rate}" for kind in ("sym", "asym") for rate in RATES}


def default_deck(folder: Path) -> Iterator[Deck]:
    with deck_in(folder) as deck:
        shutil.copy(ROOT / "tasks.toml", folder)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        yield deck


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Deck]:
    yield from default_deck(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deck, Ran]]:
    for deck in default_deck(tmp_path_factory.mktemp("default")):
        yield deck, deck.run()


def test_the_default_deck_succeeds(whole: tuple[Deck, Ran]) -> None:
    _, ran = whole
    assert ran.code == 0, ran.out
    assert ran.states == dict.fromkeys([*TRAININGS, "gather"], "succeeded")


def test_gather_comes_after_all_trainings(whole: tuple[Deck, Ran]) -> None:
    _, ran = whole
    assert ran.started[-1] == "gather"


def test_the_default_deck_leaves_its_summary(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    assert "asym" in deck.text("output/summary.md")
    assert (deck.folder / "output/accuracy.png").stat().st_size > 1000


def test_a_second_start_of_the_default_deck_finds_all_done(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    assert deck.run().states == dict.fromkeys([*TRAININGS, "gather"], "cached")


def test_the_default_deck_in_small_goes_on_after_ctrl_c(copy: Deck) -> None:
    small = ("--profile", "smoke", "--set", "epochs=1", "--only", "train-sym-0.125")
    engine = copy.start(*small)
    engine.started("train-sym-0.125")
    engine.signal(signal.SIGINT)
    assert engine.finish().code == 130
    assert copy.run(*small).states == {"train-sym-0.125": "succeeded"}
