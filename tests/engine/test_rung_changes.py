"""What rungs of on_oom and on_timeout change, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudeck.engine.core.spec import Asks, Command, Policy, TaskSpec, Work
from tests.inside.engine import rung_changes

Env = tuple[tuple[str, str | None], ...]


def spec(before: Command, *after: Command, env: Env = (), rung_env: Env = ()) -> TaskSpec:
    ladder = tuple(Work(command, rung_env) for command in after)
    return TaskSpec(name="t", entry="t", position=0, fingerprint="f", work=Work(before, env), ladder=ladder)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (("train", "--bs", "64", "x"), ("train", "--bs", "32", "x"), ("--bs 32",)),
        (("train", "--bs=64", "x"), ("train", "--bs=32", "x"), ("--bs=32",)),
        (("train", "--bs", "64"), ("train", "--bs", "32", "--accumulate"), ("--bs 32 --accumulate",)),
        (("train", "--big"), ("train",), ("without --big",)),
        (("train", "--bs", "64", "--lr", "1"), ("train", "--bs", "8", "--lr", "2"), ("--bs 8", "--lr 2")),
        ("train --bs 64 'a b'", "train --bs 32 'a b'", ("--bs 32",)),
        ("train --bs 64 'a", "train --bs 32 'a", ("--bs 32",)),
        (("train", "\0{gpu}", "64"), ("train", "\0{gpu}", "32"), ("64 → 32",)),
        (("train", "--api-key", "aaaaaaaa"), ("train", "--api-key", "bbbbbbbb"), ()),
        (("64",), ("32",), ("64 → 32",)),
    ],
)
def test_words_that_differ_are_told_with_the_option_before_them(
    before: Command, after: Command, changes: tuple[str, ...]
) -> None:
    assert rung_changes(spec(before, after), 1) == changes


def test_variables_that_differ_are_told_and_secrets_are_not() -> None:
    env: Env = (("A", "1"), ("B", "2"))
    task = spec("t", "t", env=env, rung_env=(*env, ("B", "3"), ("C", None), ("API_TOKEN", "abcdefgh")))
    assert rung_changes(task, 1)[:2] == ("B=3", "C is unset")
    assert "abcdefgh" not in " ".join(rung_changes(task, 1))


@pytest.mark.parametrize("rung", [0, 2, -1])
def test_without_such_a_rung_nothing_is_told(rung: int) -> None:
    assert rung_changes(spec(("a",), ("b",)), rung) == ()


def test_what_a_rung_asks_for_is_told_beside_what_the_task_asks_for() -> None:
    asks = Asks(gpus=2, memory_mib=2048, timeout_s=7200.0, slurm=(("time", 90.0), ("qos", "long")))
    task = replace(spec("t"), on_timeout=(asks,), policy=Policy(timeout_s=60.0))
    assert rung_changes(task, 0, 1) == (
        "gpus 1 → 2", "memory 2.0 GiB", "timeout 1m00s → 2h00m", "slurm.qos long", "slurm.time 1m30s"
    )  # fmt: skip


def test_on_both_ladders_all_is_told_that_differs_from_the_task_as_written() -> None:
    task = replace(spec("t", "small"), on_timeout=(Asks(timeout_s=60.0),))
    assert rung_changes(task, 1, 1) == ("t → small", "timeout 1m00s")
