"""Every fault in every state of a task: no attempt is lost or run twice, every exit code is true or said to be unknown,
every GPU has one holder, logs are whole.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.faults.cases import STATES, UNTOUCHED, Case
from tests.faults.faults import FAULTS, disk_for

IN_SHORT = "running"
"""Each fault meets a task in this state in the default set, in the others in the set `faults`."""
_STATES = [pytest.param(state, marks=[] if state == IN_SHORT else pytest.mark.faults) for state in STATES]


@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_books_are_right_after(tmp_path: Path, fault: str, state: str) -> None:
    chosen = FAULTS[fault]
    with disk_for(chosen, tmp_path), contextlib.closing(Case(tmp_path, state, **chosen.setting)) as case:
        case.write()
        case.start(on_terminal=chosen.on_terminal)
        case.reach()
        chosen.apply(case)
        assert case.complaints(chosen.outcome(state)) == []


@pytest.mark.parametrize("state", _STATES)
def test_the_books_are_right_where_nothing_goes_wrong(tmp_path: Path, state: str) -> None:
    with contextlib.closing(Case(tmp_path, state)) as case:
        case.write()
        case.start()
        case.reach()
        case.release()
        case.complete()
        assert case.complaints(UNTOUCHED[state]) == []
