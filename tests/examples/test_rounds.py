"""examples/rounds: sharded data, five algorithms, evaluation, a table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.decks import Deck, Ran
from tests.examples.rig import EXAMPLES, example, run

pytestmark = pytest.mark.torchrun

DATASETS = ("digits", "breast_cancer")
ALGORITHMS = ("mlp", "softmax", "kernel", "lda", "knn")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deck, Ran]]:
    with example("rounds", tmp_path_factory.mktemp("rounds")) as deck:
        yield deck, run(deck, "--gpus", "sim:2")


def generated(folder: Path, shards: int) -> tuple[np.ndarray, np.ndarray]:
    """What generate.py makes of breast_cancer in so many shards, as train.py reads it."""
    for shard in range(shards):
        words = ["--dataset", "breast_cancer", "--copies", "2", "--shard", str(shard), "--shards", str(shards)]
        script = [sys.executable, EXAMPLES / "rounds" / "generate.py", *words, "--out", folder / f"shard-{shard}.npz"]
        subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    read = (
        "import sys; from pathlib import Path; import numpy as np; from data import load, read_generated;"
        "x, y = read_generated(Path(sys.argv[1]), len(load('breast_cancer').train_y)); np.savez(sys.argv[2], x=x, y=y)"
    )
    subprocess.run([sys.executable, "-c", read, folder, folder / "all.npz"], check=True, cwd=EXAMPLES / "rounds")
    with np.load(folder / "all.npz") as found:
        return found["x"], found["y"]


def test_the_generated_rows_are_the_same_from_one_shard_and_from_three(tmp_path: Path) -> None:
    one, three = generated(tmp_path / "one", 1), generated(tmp_path / "three", 3)
    assert len(one[1]) == 3 * 399
    assert all((mine == theirs).all() for mine, theirs in zip(one, three, strict=True))


def test_a_missing_shard_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    generated(tmp_path, 2)
    (tmp_path / "shard-1.npz").unlink()
    words = ["--algorithm", "lda", "--dataset", "breast_cancer", "--epochs", "1", "--batch", "8", "--lr", "0"]
    script = [sys.executable, EXAMPLES / "rounds" / "train.py", *words, "--data", tmp_path, "--out", tmp_path / "m.pt"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nothing was generated of 199 of 399 rows: run all shards" in done.stderr


def test_the_deck_succeeds_with_a_shard_for_each_gpu(whole: tuple[Deck, Ran]) -> None:
    _, ran = whole
    assert ran.code == 0, ran.out
    shards = {f"generate-{dataset}-shard{shard}" for dataset in DATASETS for shard in (0, 1)}
    pairs = [f"{algorithm}-{dataset}" for algorithm in ALGORITHMS for dataset in DATASETS]
    rest = {f"{verb}-{pair}" for verb in ("train", "evaluate") for pair in pairs} | {"report"}
    assert ran.states == dict.fromkeys(shards | rest, "succeeded")


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_rounds_of_a_dataset_come_one_after_the_other(whole: tuple[Deck, Ran], dataset: str) -> None:
    verbs = [task.partition("-")[0] for task in whole[1].started if dataset in task]
    assert verbs == ["generate"] * 2 + ["train"] * 5 + ["evaluate"] * 5


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_learns_every_dataset(whole: tuple[Deck, Ran], algorithm: str, dataset: str) -> None:
    result = json.loads(whole[0].text(f"output/evaluation/{dataset}-{algorithm}.json"))
    assert result["accuracy"] > 0.9


def test_larger_cards_train_with_larger_batches(whole: tuple[Deck, Ran]) -> None:
    assert "batch 256" in whole[0].text("logs/train-mlp-digits/attempt-1.log")


def test_the_table_of_the_deck_is_the_summary(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    words = ("--metric", "accuracy", "--rows", "algorithm", "--columns", "dataset", "--format", "csv")
    table = deck.command("table", *words)
    assert table.code == 0, table.err
    assert {line.split(",")[0] for line in table.out.splitlines()[1:]} == set(ALGORITHMS)
    assert all(f"| {algorithm} |" in deck.text("output/summary.md") for algorithm in ALGORITHMS)
