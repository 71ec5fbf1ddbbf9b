"""What holds of attempts holds whether their wrappers were started for them or ahead of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.adapters.nvml.calls import Nvml
from gpudeck.engine.adapters.nvml.device import Device
from gpudeck.engine.adapters.nvml.owners import Owners
from gpudeck.engine.adapters.processes import proc
from gpudeck.tests.fakes.local_rig import AHEAD, end_children
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import KINDS, double
from tests.fakes.still_clock import StillClock

BOTH = "test_local_"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2].startswith(BOTH):
        metafunc.parametrize("shells", ["cold", "warm"], indirect=True)


@pytest.fixture(autouse=True)
def shells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", "cold") == "warm":
        monkeypatch.setenv(AHEAD, "1")


@pytest.fixture(autouse=True)
def children() -> Iterator[None]:
    """What a test leaves behind, much of it on purpose, is neither a child of the next one nor outlives all of them."""
    before = set(proc.own_children())
    yield
    end_children(before)


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    """Two cards behind a driver of each kind."""
    with double(request.param, tmp_path, cards=2) as made:
        yield made


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def device(box: Box, clock: StillClock) -> Device:
    """The first card."""
    return Device(box.uuid(0), Nvml(), Owners(), clock)
