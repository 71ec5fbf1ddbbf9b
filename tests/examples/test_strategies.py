"""examples/strategies: what auto, single, dp and ddp become where there is no GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.decks import Deck, Ran
from tests.examples.rig import example, run

pytestmark = pytest.mark.torchrun


DDP, SINGLE = ("ddp", 2, "gloo"), ("single", 1, "-")
BECOMES = {"auto-30m": DDP, "single-30m": SINGLE, "dp-30m": SINGLE, "ddp-30m": DDP, "ddp-60m": DDP}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deck, Ran]]:
    with example("strategies", tmp_path_factory.mktemp("strategies")) as deck:
        yield deck, run(deck, "--gpus", "none")


def test_the_deck_succeeds(whole: tuple[Deck, Ran]) -> None:
    _, ran = whole
    assert ran.code == 0, ran.out
    assert ran.states == dict.fromkeys([*BECOMES, "summary"], "succeeded")


@pytest.mark.parametrize("task", BECOMES)
def test_a_strategy_becomes_what_it_can_without_a_gpu_and_learns(whole: tuple[Deck, Ran], task: str) -> None:
    result = json.loads(whole[0].text(f"output/{task}.json"))
    assert (result["strategy"], result["processes"], result["backend"]) == BECOMES[task]
    assert result["accuracy"] > 0.85


@pytest.mark.parametrize(("task", "timeout_s"), [("ddp-30m", "1800"), ("ddp-60m", "3600")])
def test_the_script_is_told_what_the_task_file_says(whole: tuple[Deck, Ran], task: str, timeout_s: str) -> None:
    result = json.loads(whole[0].text(f"output/{task}.json"))
    assert (result["asked"], result["timeout_s"]) == ("ddp", timeout_s)


def test_dp_without_gpus_says_that_it_trains_like_single(whole: tuple[Deck, Ran]) -> None:
    assert 'trains like "single"' in whole[0].text("logs/dp-30m/attempt-1.err")


def test_the_second_rank_has_a_log_of_its_own(whole: tuple[Deck, Ran]) -> None:
    assert (whole[0].folder / "logs" / "ddp-30m" / "attempt-1.rank1.log").exists()


def test_the_debug_retry_tells_more_and_is_the_same_task(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    retried = deck.command("retry", "ddp-30m", "--debug", "-y")
    assert retried.code == 0, retried.err
    waited = deck.command("wait", "ddp-30m")
    assert waited.code == 0, waited.err
    assert deck.command("stop").code == 0
    assert deck.record("ddp-30m", 2)["env"]["TORCH_DISTRIBUTED_DEBUG"] == "INFO"
    again = run(deck, "--gpus", "none", "--only", "ddp-30m")
    assert again.states == {"ddp-30m": "cached"}


def test_a_single_strategy_in_two_processes_fails_and_trains_nothing(whole: tuple[Deck, Ran]) -> None:
    deck, _ = whole
    deck.write(deck.text("tasks.toml").replace('by = "command", n = 1', 'by = "torchrun", n = 2'), "wrong.toml")
    ran = run(deck, "--gpus", "none", "--only", "single-30m", "--set", "out=wrong", file="wrong.toml")
    assert ran.code == 1
    assert "each would train a model of its own" in ran.rows["single-30m"]["reason"]
    assert not (deck.folder / "wrong").exists()
