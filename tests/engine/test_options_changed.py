"""What becomes of an engine's run options when others are asked of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpudeck.engine.errors import UsageError
from tests.inside.engine import RunOptions, as_before, changed, continued, difference

RUNNING = RunOptions(set={"lr": "0.1"}, profile="smoke", only=("a*",), with_needs=True, gpus="0-3")


def test_what_is_not_given_stays() -> None:
    now = changed(RUNNING, RunOptions(slots_per_gpu="2"))
    assert now == RunOptions(
        set={"lr": "0.1"}, profile="smoke", only=("a*",), with_needs=True, gpus="0-3", slots_per_gpu="2"
    )


def test_the_profile_and_the_name_of_the_state_stay() -> None:
    assert changed(RUNNING, RunOptions(profile="smoke", gpus="0")).profile == "smoke"
    assert changed(RUNNING, RunOptions(gpus="0")).profile == "smoke"


def test_another_selection_brings_its_own_word_on_needs() -> None:
    assert not changed(RUNNING, RunOptions(only=("b",))).with_needs
    assert changed(RUNNING, RunOptions(only=("b",), with_needs=True)).with_needs


@pytest.mark.parametrize("keep", [continued, as_before, changed], ids=["unfinished", "ended", "live"])
def test_values_that_are_not_given_again_stay(keep: Callable[[RunOptions, RunOptions], RunOptions]) -> None:
    kept = RunOptions(set={"lr": "0.1", "seeds": "[1]"})
    assert keep(kept, RunOptions(set={"lr": "0.1"})) == kept


def test_the_same_selection_again_is_no_change() -> None:
    assert changed(RUNNING, RunOptions(only=("a*",))) == RUNNING


@pytest.mark.parametrize(
    "given",
    [
        RunOptions(set={"lr": "0.2"}),
        RunOptions(exclude=("a1",)),
        RunOptions(limit=1),
        RunOptions(log_dir="/elsewhere"),
        RunOptions(skip_existing=False),
        RunOptions(halt="never"),
        RunOptions(fail_fast=True),
        RunOptions(backend="slurm"),
    ],
)
def test_what_makes_other_tasks_or_another_run_is_refused(given: RunOptions) -> None:
    with pytest.raises(UsageError, match="the engine that runs this deck was started with"):
        changed(RUNNING, given)


@pytest.mark.parametrize("keep", [continued, as_before], ids=["a run that goes on", "a new engine"])
@pytest.mark.parametrize(
    ("kept", "given"),
    [
        (RunOptions(fail_fast=True), RunOptions(halt="never")),
        (RunOptions(halt="now,fail=3"), RunOptions(fail_fast=True)),
    ],
)
def test_fail_fast_and_halt_take_each_others_place(
    keep: Callable[[RunOptions, RunOptions], RunOptions], kept: RunOptions, given: RunOptions
) -> None:
    assert keep(kept, given) == given


@pytest.mark.parametrize(
    ("given", "was"),
    [
        (RunOptions(fail_fast=True), "no --fail-fast"),
        (RunOptions(skip_existing=True), "--no-skip-existing"),
        (RunOptions(limit=1), "no --limit"),
    ],
)
def test_a_refusal_names_only_options_that_there_are(given: RunOptions, was: str) -> None:
    with pytest.raises(UsageError, match=f"was started with {was};"):
        changed(RunOptions(skip_existing=False), given)


def test_a_difference_is_told_as_it_would_be_typed() -> None:
    now = changed(RUNNING, RunOptions(only=("b", "c"), slots_per_gpu="2"))
    assert difference(RUNNING, now) == (
        "--only b --only c (before: --only a*), --slots-per-gpu 2 (before: as in the file)"
    )
