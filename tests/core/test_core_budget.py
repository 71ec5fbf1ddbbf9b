"""What a deck may take: `[budget]`, and the room on its disks that it leaves."""

from __future__ import annotations

import time

import pytest
from core_world import World, deck_file, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.budget import used_gpu_s, used_in_words
from gpudeck.engine.core.explain import Explainer
from gpudeck.engine.core.fit import barred_in_words
from gpudeck.engine.core.hours import Clock
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import Budget, DeckSettings
from gpudeck.engine.core.why_waiting import only_a_user_helps

GIB = 1024


def of_hours(hours: float) -> DeckSettings:
    return DeckSettings(budget=Budget(gpu_hours=hours))


def why(found: World, name: str) -> list[str]:
    return [obstacle.text for obstacle in Explainer(found.deck, found.now).obstacles(found.task(name))]


def test_nothing_starts_once_attempts_have_taken_the_budget_and_what_runs_goes_on() -> None:
    found = world(spec("a"), spec("b"), spec("c"), gpus=2, settings=of_hours(1.5))
    found.advance(3600)
    found.end("a", 1)
    assert found.running() == {"b": (1,)}
    assert why(found, "c") == ["the budget of 1.5 GPU hours is used up (gpu_hours)"]
    found.end("b")
    assert used_in_words(found.deck, found.now) == "2 of 1.5 GPU hours"
    assert only_a_user_helps(found.deck, found.now)


def test_where_nothing_is_used_up_no_budget_is_said_to_be_spent() -> None:
    found = world(spec("a"), spec("b"), settings=of_hours(1.5))
    assert barred_in_words(found.deck, found.now) == ("", False)


def test_each_attempt_counts_by_its_gpus_and_a_cpu_task_not_at_all() -> None:
    found = world(spec("pair", gpus=2), spec("prep", gpus=0), gpus=2)
    found.advance(100)
    assert used_gpu_s(found.deck, found.now) == pytest.approx(200)
    found.end("pair")
    found.end("prep")
    assert used_gpu_s(found.deck, found.now) == pytest.approx(200)


def test_a_restart_knows_what_was_used_and_more_hours_let_the_rest_start() -> None:
    found = world(spec("a"), spec("b"), settings=of_hours(1))
    found.advance(3600)
    found.end("a")
    found.restart()
    assert found.running() == {}
    found.restart(file=deck_file([spec("a"), spec("b")], of_hours(2)))
    assert found.running() == {"b": (0,)}


def test_what_tasks_took_that_have_left_the_file_counts() -> None:
    found = world(spec("a"), spec("b"), settings=of_hours(1))
    found.advance(3600)
    found.end("a")
    found.restart(file=deck_file([spec("b")], of_hours(1)))
    assert found.running() == {}


def test_what_a_restart_of_the_box_ended_counts_until_it_is_found_out() -> None:
    found = world(spec("a"), spec("b"), settings=of_hours(1))
    found.advance(3600)
    found.restart(reboot=True)
    assert used_gpu_s(found.deck, found.now) == pytest.approx(3605)
    assert found.running() == {}


def test_nothing_starts_from_the_end_of_the_budget_on() -> None:
    then = time.localtime(world(spec("a"), begin=False).wall + 600)
    end = Clock(then.tm_hour, then.tm_min, (then.tm_year, then.tm_mon, then.tm_mday))
    found = world(spec("a"), spec("b"), settings=DeckSettings(budget=Budget(until=end)))
    found.advance(600)
    found.end("a")
    assert (found.running(), why(found, "b")) == ({}, [f"the budget was until {end}"])


def test_a_plan_ends_where_the_budget_does() -> None:
    found = world(spec("a"), spec("b"), spec("c"), settings=of_hours(2), begin=False)
    planned = simulate(found.deck, lambda _: 3600.0, wall=found.wall, at=found.now)
    assert [item.task for item in planned] == ["a", "b"]


def test_nothing_starts_while_the_disk_has_less_room_than_it_must_have() -> None:
    found = world(spec("a"), settings=DeckSettings(disk_mib=80 * GIB))
    assert (found.running(), why(found, "a")) == ({}, ["free on disk: not known yet; a start needs 80.0 GiB (disk)"])
    found.give(i.DevicesSampled((), disk_free_mib=12 * GIB))
    assert (found.running(), why(found, "a")) == ({}, ["free on disk: 12.0 GiB; a start needs 80.0 GiB (disk)"])
    assert not only_a_user_helps(found.deck, found.now)
    found.give(i.DevicesSampled((), disk_free_mib=80 * GIB))
    assert found.running() == {"a": (0,)}
