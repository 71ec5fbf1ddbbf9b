"""examples/ddp: stages on different numbers of processes, and a training that two processes or one can do."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.decks import Deck, Ran, until
from tests.examples.rig import PATIENCE_S, example, run

pytestmark = pytest.mark.torchrun


TESTS = 497


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deck, Ran]]:
    with example("ddp", tmp_path_factory.mktemp("ddp")) as deck:
        yield deck, run(deck, "--gpus", "sim:3")


def dumped(deck: Deck, out: str) -> None:
    """What the first stage made, for a training with results in another folder."""
    shutil.copytree(deck.folder / "output" / "activations", deck.folder / out / "activations")


def test_the_deck_succeeds(whole: tuple[Deck, Ran]) -> None:
    _, ran = whole
    assert ran.code == 0, ran.out
    assert ran.states == dict.fromkeys(["dump", "train-ddp", "train-single", "evaluate"], "succeeded")


def test_three_processes_dump_their_own_rows_into_logs_of_their_own(whole: tuple[Deck, Ran]) -> None:
    logs = whole[0].folder / "logs" / "dump"
    texts = [(logs / f"attempt-1{part}.log").read_text() for part in ("", ".rank1", ".rank2")]
    assert all(f"rank {rank} of 3: 599 rows" in text for rank, text in enumerate(texts))


@pytest.mark.parametrize(("run", "processes"), [("ddp", 2), ("single", 1)])
def test_the_probe_learns_with_two_processes_and_with_one(whole: tuple[Deck, Ran], run: str, processes: int) -> None:
    metrics = json.loads(whole[0].text(f"output/{run}/metrics.json"))
    assert metrics["processes"] == processes
    assert metrics["accuracy"] > 0.9


def test_the_learning_rate_and_the_step_grow_with_the_processes(whole: tuple[Deck, Ran]) -> None:
    assert "2 processes, steps of 64, lr 0.1\n" in whole[0].text("logs/train-ddp/attempt-1.log")
    assert "1 processes, steps of 32, lr 0.05\n" in whole[0].text("logs/train-single/attempt-1.log")


def test_an_accuracy_of_two_processes_is_that_of_one_on_the_same_model(whole: tuple[Deck, Ran]) -> None:
    metrics = json.loads(whole[0].text("output/ddp/metrics.json"))
    assert round(metrics["accuracy"] * TESTS, 6).is_integer()
    found = re.search(r"\| ddp \| 2 \| (\S+) \| (\S+) \|", whole[0].text("output/summary.md"))
    assert found is not None
    assert found[1] == found[2]


def test_two_checkpoints_stay_written_by_one_process(whole: tuple[Deck, Ran]) -> None:
    names = {path.name for path in (whole[0].folder / "output" / "ddp").iterdir()}
    assert names == {"epoch-10.pt", "epoch-15.pt", "model.pt", "metrics.json"}


def test_a_training_that_was_stopped_goes_on_after_the_epoch_in_which_it_was(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    options = ("--name", "stopped", "--gpus", "sim:2", "--set", "epochs=60", "--set", "out=stopped")
    again = ("--only", "train-ddp", "--log-dir", "stopped-logs")
    folder = deck.folder / "stopped" / "ddp"
    dumped(deck, "stopped")
    engine = deck.start(*options, *again)
    until(lambda: list(folder.glob("epoch-*.pt")) or engine.process.poll() is not None, PATIENCE_S)
    engine.signal(signal.SIGINT)
    assert engine.finish().code == 130
    stopped = max(int(path.stem.removeprefix("epoch-")) for path in folder.glob("epoch-*.pt"))
    ran = run(deck, *options, *again)
    assert ran.states["train-ddp"] == "succeeded"
    assert f"going on after epoch {stopped}\n" in deck.text("stopped-logs/train-ddp/attempt-2.log")
    assert 5 <= stopped < 60


def test_with_one_gpu_the_same_deck_trains_in_single_processes(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    dumped(deck, "output/one")
    ran = run(deck, "--profile", "one", "--gpus", "sim:1", "--set", "epochs=2", "--only", "train-ddp")
    assert ran.code == 0, ran.out
    assert json.loads(deck.text("output/one/ddp/metrics.json"))["processes"] == 1
