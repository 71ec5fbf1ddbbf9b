"""Jobs of a cluster between two words of it: what comes late, twice, or without what was expected."""

from __future__ import annotations

from core_cluster import Cluster, cluster
from core_world import spec

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.flags import is_pending
from gpudeck.engine.core.phases import Attempt


def attempt(found: Cluster) -> Attempt:
    known = found.task("a").attempt()
    assert known is not None
    return known


def test_why_a_job_waits_changes_what_is_shown():
    found = cluster(spec("a"))
    found.waits("a", "Priority")
    found.deck.moved.clear()
    found.waits("a", "Resources")
    assert found.task("a").index in found.deck.moved


def test_a_new_expected_start_is_told_though_the_reason_is_the_same():
    found = cluster(spec("a"))
    found.waits("a", "Priority", 1405.0)
    found.waits("a", "Priority", 1500.0)
    assert attempt(found).begins == 1500.0


def test_why_a_job_waited_is_no_news_of_one_that_runs():
    found = cluster(spec("a"))
    found.begins("a")
    found.deck.moved.clear()
    found.waits("a", "Priority", 1405.0)
    assert (attempt(found).pending, attempt(found).begins, found.deck.moved) == ("", None, set())


def test_a_beginning_that_does_not_name_its_job_keeps_the_one_that_is_known():
    found = cluster(spec("a"))
    found.give(i.Spawned(found.proc("a").token, at=found.now, nodes=("n1",)))
    assert (attempt(found).job, attempt(found).nodes) == ("100", ("n1",))


def test_a_stopped_job_ended_because_of_that_although_the_nodes_clock_is_behind():
    found = cluster(spec("a"))
    found.begins("a")
    found.advance(100.0)
    found.verb("cancel", "a", by="alice")
    found.ends("a", 143, "", ago_s=4.0)
    outcome = found.task("a").ended[-1].outcome
    assert (outcome.reason, outcome.detail) == ("cancelled", "by alice")


def test_a_job_that_was_cancelled_by_others_before_it_began_never_ran():
    found = cluster(spec("a"))
    found.ends("a", None, "cancelled")
    (fact,) = found.of(e.AttemptEnded)
    assert isinstance(fact, e.AttemptEnded)
    assert (fact.never_ran, fact.duration_s) == (True, 0.0)


def test_a_task_that_is_no_job_yet_is_not_pending():
    found = cluster(spec("a"), begin=False)
    found.begin(settle=False)
    assert (found.phase("a"), is_pending(found.task("a"))) == ("starting", False)
    found.settle()
    assert is_pending(found.task("a"))
