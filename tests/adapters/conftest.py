"""No test leaves processes behind; cards behind doubles of the driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.adapters.nvml.calls import Nvml
from gpudeck.engine.adapters.nvml.device import Device
from gpudeck.engine.adapters.processes import proc
from tests.fakes import forked
from tests.fakes.local_rig import end_children
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import KINDS, double
from tests.fakes.still_clock import StillClock


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Is there before any test, so that none takes it for a child of its own."""
    forked._server()


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
    return Device(box.uuid(0), Nvml(), clock)
