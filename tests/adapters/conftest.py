"""What holds of attempts holds whether their wrappers were started for them or ahead of them: tried where it could
differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.adapters.nvml.calls import Nvml
from gpudeck.engine.adapters.nvml.device import Device
from gpudeck.engine.adapters.nvml.owners import Owners
from gpudeck.engine.adapters.processes import proc
from tests.fakes import forked
from tests.fakes.local_rig import AHEAD, end_children
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import KINDS, double
from tests.fakes.still_clock import StillClock

ALSO_WARM = {
    "test_local_child": {""},
    "test_local_claims": {"test_a_process_that_outlives_the_leader_keeps_the_gpu"},
    "test_local_codes": {
        "test_a_commands_own_code_is_told_as_it_is",
        "test_a_file_as_folder_is_named",
        "test_a_log_that_is_a_folder_is_a_spawn_error_that_says_so",
        "test_a_signal_that_the_command_survives_does_not_end_its_wrapper",
        "test_an_attempt_whose_record_cannot_be_made_never_ran",
        "test_arguments_arrive_byte_for_byte",
    },
    "test_local_many": {"test_many_attempts_at_once_each_end_once"},
    "test_local_recover": {
        "test_a_running_attempt_is_adopted_and_its_code_told",
        "test_an_attempt_that_ended_without_an_engine_tells_its_code",
    },
    "test_local_stop": {
        "test_a_stop_at_any_moment_of_a_start_is_heard",
        "test_what_ignores_the_signal_is_killed_in_every_session",
    },
}
"""Tests whose attempts are started in shells of before, too; "": all of the module."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = ALSO_WARM.get(metafunc.module.__name__.rpartition(".")[2], set())
    if names & {"", metafunc.function.__name__}:
        metafunc.parametrize("shells", ["cold", "warm"], indirect=True)


@pytest.fixture(autouse=True)
def shells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", "cold") == "warm":
        monkeypatch.setenv(AHEAD, "1")


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
    return Device(box.uuid(0), Nvml(), Owners(), clock)
