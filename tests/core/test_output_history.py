"""Which attempt can have written what is there: told by when it was written, and the attempts' beginnings and ends."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.output_history import OutputAttempt, doubt
from tests.core.core_specs import spec

MINE = spec("mine", outputs=("out",))
SUCCESS = OutputAttempt("mine", MINE.fingerprint, ("out",), began_wall=100.0, ok=True, ended_wall=110.0)


def failed(began: float, ended: float) -> OutputAttempt:
    return OutputAttempt("other", "x", ("out",), began_wall=began, ok=False, ended_wall=ended)


@pytest.mark.parametrize(
    ("other", "written", "blamed"),
    [
        pytest.param(failed(110.01, 110.03), 110.02, True, id="right after the success has ended"),
        pytest.param(failed(110.01, 110.03), 110.004, False, id="before it had begun, its end told to a hundredth"),
        pytest.param(failed(120.0, 130.0), 109.0, False, id="long before it had begun"),
        pytest.param(failed(120.0, 130.0), 125.0, True, id="while it ran"),
        pytest.param(failed(90.0, 130.0), 109.9, False, id="while both ran: the success ended behind it"),
        pytest.param(failed(90.0, 130.0), 120.0, True, id="while both ran, behind the end of the success"),
        pytest.param(failed(90.0, float("inf")), 110.0, False, id="it may still run, and the success ended behind it"),
    ],
)
def test_who_can_have_written_what_is_there_last_answers_for_it(
    other: OutputAttempt, written: float, blamed: bool
) -> None:
    assert bool(doubt(MINE, None, [SUCCESS, other], written)) is blamed
