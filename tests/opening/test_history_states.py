"""States that selectors such as `state:pending` mean before there is a deck, of what the journal leaves open."""

from __future__ import annotations

import pytest

from gpudeck.engine.core import events as e
from gpudeck.engine.core.spec import Policy, Resources, TaskSpec, Work
from gpudeck.engine.opening.history import History

SPEC = TaskSpec(
    name="a", entry="a", position=0, work=Work("true"), fingerprint="f", resources=Resources(), policy=Policy()
)
GIVEN = e.AttemptStarting("a", 1, "t" * 24, "f", (), 1, 0, 1.0, 1.0, where="slurm")
TAKEN = e.AttemptSubmitted("a", 1, "1234")
BEGUN = e.AttemptRunning("a", 1, 0, 0, 0, "1234", ("node1",), 2.0, 2.0)
ENDED = e.AttemptEnded("a", 1, e.Outcome("cancelled"), 3.0, 3.0, 0.0, "cancelled", fingerprint="f")
HERE = e.AttemptStarting("a", 1, "t" * 24, "f", ("GPU-1",), 0, 0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("facts", "states"),
    [
        ([GIVEN], ("starting",)),
        ([GIVEN, TAKEN], ("starting", "pending")),
        ([GIVEN, TAKEN, BEGUN], ("running",)),
        ([GIVEN, TAKEN, ENDED], ("cancelled",)),
        ([GIVEN, e.StartRevoked("a", 1, "sbatch cannot be begun", 9.0)], ("queued",)),
        ([HERE], ("running",)),
    ],
)
def test_an_attempt_that_lasts_is_pending_until_its_job_begins(facts: list[e.Fact], states: tuple[str, ...]) -> None:
    assert tuple(History(facts, ()).look(SPEC).states) == states
