"""The groups of states that rows are read by."""

from __future__ import annotations

from typing import get_args

from gpudeck.engine.core.phases import ACTIVE as ACTIVE_PHASES
from gpudeck.engine.core.phases import FINAL, NAMES
from gpudeck.engine.protocol.rows import State
from gpudeck.engine.protocol.states import ACTIVE, DONE, ENDED, FAILED, WAITING

AT_REST = ENDED | {"blocked", "unknown"}
"""Nothing is under way, and nothing will be unless a user acts."""


def test_every_state_is_under_way_or_waits_or_rests() -> None:
    assert sorted([*ACTIVE, *WAITING, *AT_REST]) == sorted(get_args(State)) == sorted(NAMES.values())


def test_the_groups_are_those_of_the_core() -> None:
    assert {NAMES[phase] for phase in FINAL} == ENDED
    assert {NAMES[phase] for phase in ACTIVE_PHASES} == ACTIVE | {"unknown"}
    assert DONE < ENDED
    assert {"failed"} == FAILED & ENDED
