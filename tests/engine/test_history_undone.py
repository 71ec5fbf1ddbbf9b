"""What was taken back counts for selectors as if it had not been asked for."""

from __future__ import annotations

from gpudeck.engine.core import events as e
from gpudeck.engine.core.spec import Policy, Resources, TaskSpec, Work
from gpudeck.engine.opening.history import History

FAILED = e.AttemptEnded("a", 1, e.Outcome("exit", 1), 1.0, 1.0, 1.0, "failed", fingerprint="f")


def states(*facts: e.Fact) -> tuple[str, ...]:
    spec = TaskSpec(
        name="a", entry="a", position=0, work=Work("true"), fingerprint="f", resources=Resources(), policy=Policy()
    )
    return tuple(History(facts, ()).look(spec).states)


def test_a_retry_that_was_taken_back_leaves_the_task_failed() -> None:
    retried = e.TaskRetried("a", 2.0, act="x")
    assert states(FAILED, retried) == ("queued",)
    assert states(FAILED, retried, e.TakenBack("a", "x", "retry", 3.0)) == ("failed",)


def test_acts_that_were_taken_back_one_after_the_other_leave_what_was_before_both() -> None:
    both = (e.TaskRetried("a", 2.0, act="x"), e.TaskCancelled("a", 2.5, act="y"))
    undone = e.TakenBack("a", "y", "cancel", 3.0)
    assert states(FAILED, *both) == ("cancelled",)
    assert states(FAILED, *both, undone) == ("queued",)
    assert states(FAILED, *both, undone, e.TakenBack("a", "x", "retry", 3.0)) == ("failed",)


def test_the_cancel_of_a_task_that_never_ran_leaves_it_waiting() -> None:
    assert states(e.TaskCancelled("a", 1.0, act="y"), e.TakenBack("a", "y", "cancel", 2.0)) == ("waiting",)
