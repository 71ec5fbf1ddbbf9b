"""GPUs among generic resources, as people write them and as Slurm does."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.gpu_names import gpus_by_type


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("", {}),
        ("(null)", {}),
        ("gpu", {"": 1}),
        ("gpu:4", {"": 4}),
        ("gpu:a100", {"a100": 1}),
        ("gpu:a100:0(IDX:N/A)", {}),
        ("gpu:a100:4(S:0-1),nic:2", {"a100": 4}),
        ("lustre:1, gres/gpu:2", {"": 2}),
        ("gpu:a100:3(IDX:0,2-3),gpu:h100:1(IDX:4)", {"a100": 3, "h100": 1}),
        ("gpu:a100:2,gpu:a100:1", {"a100": 3}),
        ("shard:gpu:8,craynetwork:2,gpu:tesla:2", {"tesla": 2}),
        ("gpu:nvidia_a100_3g.39gb:2", {"nvidia_a100_3g.39gb": 2}),
        ("gpu:a:b:2", {}),
    ],
)
def test_gpus_are_counted_by_type(gres: str, gpus: dict[str, int]):
    assert gpus_by_type(gres) == gpus
