"""What attempts say of themselves: when they will end, and watch rules that end them."""

from __future__ import annotations

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i


def progressed(found: World, task: str, eta_s: float | None) -> None:
    found.give(i.Progressed(found.proc(task).token, eta_s))


def watched(found: World, task: str, why: str = "silent for 30 min") -> None:
    found.give(i.Watched(found.proc(task).token, why))


def test_an_end_told_by_progress_goes_before_what_was_learned() -> None:
    found = world(spec("a", timeout_s=50.0), begin=False)
    found.deck.learned.success("fp-a", 1000.0)
    found.begin()
    found.advance(10)
    progressed(found, "a", 30.0)
    assert found.deck.expected_s(found.task("a")) == pytest.approx(40.0)


def test_progress_that_tells_no_end_any_more_leaves_what_was_learned() -> None:
    found = world(spec("a"), begin=False)
    found.deck.learned.success("fp-a", 1000.0)
    found.begin()
    progressed(found, "a", 30.0)
    progressed(found, "a", None)
    assert found.deck.expected_s(found.task("a")) == 1000.0


def test_a_small_task_fills_in_once_progress_tells_that_it_ends_in_time() -> None:
    found = world(spec("long"), spec("gang", gpus=4), spec("hour"), gpus=4, begin=False)
    found.deck.learned.success("fp-hour", 3600.0)
    found.begin()
    assert found.running() == {"long": (0,)}
    progressed(found, "long", 4000.0)
    assert found.running() == {"hour": (1,), "long": (0,)}


def test_the_next_attempt_does_not_inherit_the_end_of_the_last() -> None:
    found = world(spec("a", retries=1, backoff_s=1.0))
    progressed(found, "a", 30.0)
    found.end("a", 1)
    found.advance(5)
    assert found.phase("a") == "running"
    assert found.deck.expected_s(found.task("a")) is None


def test_progress_is_not_journalled() -> None:
    found = world(spec("a"))
    before = len(found.facts)
    progressed(found, "a", 30.0)
    assert len(found.facts) == before


@pytest.mark.parametrize("kind", [i.Progressed("gone", 1.0), i.Watched("gone", "silent")])
def test_news_of_an_attempt_that_is_over_is_nothing(kind: i.Input) -> None:
    found = world(spec("a"))
    found.give(kind)
    assert found.phase("a") == "running"


def test_a_watch_rule_stops_the_attempt_and_is_the_reason() -> None:
    found = world(spec("a"))
    watched(found, "a")
    assert found.phase("a") == "stopping"
    found.end("a", 0)
    outcome = found.task("a").ended[-1].outcome
    assert (found.phase("a"), outcome.reason, outcome.detail) == ("failed", "watch", "silent for 30 min")


def test_a_watch_rule_counts_as_a_failure_that_is_retried() -> None:
    found = world(spec("a", retries=1, backoff_s=1.0))
    watched(found, "a")
    found.end("a", 143)
    assert found.phase("a") == "backoff"


def test_a_second_hit_does_not_stop_again() -> None:
    found = world(spec("a"))
    watched(found, "a")
    watched(found, "a")
    assert len(found.of(e.StopRequested)) == 1


def test_a_watch_rules_stop_goes_on_after_a_restart() -> None:
    found = world(spec("a"))
    watched(found, "a")
    found.restart()
    found.end("a", 0)
    assert found.task("a").ended[-1].outcome.detail == "silent for 30 min"


def test_a_leader_that_is_gone_already_is_not_stopped_by_a_watch_rule() -> None:
    found = world(spec("a"))
    proc = found.proc("a")
    found.give(i.LeaderExited(proc.token, 0, found.now), i.Watched(proc.token, "silent"))
    assert found.of(e.StopRequested) == []
