"""What kind of training it becomes, as a table; and what a script leaves to the environment."""

from __future__ import annotations

import pytest

from gpudeck.distributed.errors import DistributedError
from gpudeck.distributed.settings import Settings, choose, mixed_precision, settings_of

pytestmark = pytest.mark.torchrun


@pytest.mark.parametrize(
    ("asked", "backend", "world_size", "gpus", "becomes"),
    [
        ("auto", "", 1, 0, ("single", "")),
        ("auto", "", 1, 1, ("single", "")),
        ("auto", "", 1, 4, ("single", "")),
        ("auto", "", 4, 0, ("ddp", "gloo")),
        ("auto", "", 4, 4, ("ddp", "nccl")),
        ("auto", "gloo", 4, 4, ("ddp", "gloo")),
        ("ddp", "", 2, 1, ("ddp", "nccl")),
        ("ddp", "nccl", 2, 0, ("ddp", "gloo")),
        ("ddp", "", 1, 4, ("single", "")),
        ("single", "nccl", 1, 4, ("single", "")),
        ("dp", "", 1, 4, ("dp", "")),
        ("dp", "", 1, 1, ("single", "")),
    ],
)
def test_the_strategy_follows_from_world_and_gpus(
    asked: str, backend: str, world_size: int, gpus: int, becomes: tuple[str, str]
) -> None:
    choice = choose(asked, backend, world_size=world_size, gpus_visible=gpus)
    assert (choice.strategy, choice.backend) == becomes


def test_gpus_that_lie_idle_are_told_with_the_command_that_uses_them() -> None:
    assert "--nproc-per-node 4" in choose("auto", "", world_size=1, gpus_visible=4).notices[0]


@pytest.mark.parametrize(
    ("asked", "backend", "world_size", "gpus", "words"),
    [
        ("ddp", "", 1, 4, "torchrun"),
        ("dp", "", 1, 4, "slower"),
        ("dp", "", 1, 0, "0 GPUs visible"),
        ("ddp", "nccl", 2, 0, "needs CUDA"),
    ],
)
def test_what_is_not_as_asked_is_warned_of(asked: str, backend: str, world_size: int, gpus: int, words: str) -> None:
    (warning,) = choose(asked, backend, world_size=world_size, gpus_visible=gpus).warnings
    assert words in warning


@pytest.mark.parametrize("asked", ["single", "dp"])
def test_several_processes_never_train_side_by_side_unnoticed(asked: str) -> None:
    with pytest.raises(DistributedError, match="a model of its own"):
        choose(asked, "", world_size=2, gpus_visible=2)


def test_an_unknown_strategy_is_an_error() -> None:
    with pytest.raises(DistributedError, match="auto, single, dp, ddp"):
        choose("fsdp", "", world_size=2, gpus_visible=2)


def test_defaults_come_from_the_variables_of_the_task_file() -> None:
    environ = {
        "GPUDECK_DIST_STRATEGY": "ddp",
        "GPUDECK_DIST_BACKEND": "gloo",
        "GPUDECK_DIST_TIMEOUT": "3600",
        "GPUDECK_DIST_FIND_UNUSED_PARAMETERS": "true",
        "GPUDECK_DIST_MIXED_PRECISION": "bf16",
    }
    assert settings_of(environ) == Settings("ddp", "gloo", 3600.0, True, "bf16")
    assert settings_of({}) == Settings("auto", "", 1800.0, False, "off")


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIMEOUT", "30m"), ("TIMEOUT", "0"), ("FIND_UNUSED_PARAMETERS", "maybe"), ("MIXED_PRECISION", "8")],
)
def test_a_value_that_is_none_is_an_error_that_shows_it(name: str, value: str) -> None:
    with pytest.raises(DistributedError, match=value):
        settings_of({f"GPUDECK_DIST_{name}": value})


def test_precisions_go_by_torchs_names_too() -> None:
    assert [mixed_precision(name) for name in ("bfloat16", "Float16", "", "no")] == ["bf16", "fp16", "off", "off"]
