"""Processes that outlive a KILL are named."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Any

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.effects import Stop
from gpudeck.engine.core.events import AttemptStarting, RunStarted
from gpudeck.engine.core.inputs import Tick
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Resources, TaskSpec, Work
from gpudeck.engine.core.step import Core
from tests.fakes.launcher import FakeLauncher
from tests.inside.attempts import LATE_S, Stops


class Deaf(FakeLauncher):
    """What it runs has the processes that a test names, and heeds no stop."""

    def members(self) -> Mapping[int, str]:
        return self.there

    there: Mapping[int, str] = {}


class Dying(dict[int, str]):
    """Goes through a process that has ended by the time that its attempt is asked for."""

    def __iter__(self) -> Iterator[int]:
        yield 4710
        yield from super().__iter__()

    def items(self) -> Any:
        return ItemsView(self)


class Rig:
    """A deck whose one task runs."""

    def __init__(self) -> None:
        spec = TaskSpec("a", "a", 0, Work("true"), "fp", resources=Resources(gpus=0))
        self.deck: Deck = build(DeckFile("/tasks.toml", "tasks", DeckSettings(), (spec,)), gpus=(), cores=1)
        core = Core(self.deck)
        facts = core.begin(RunStarted(1, "seed", 0.0, 0.0)).facts + core.step([Tick()], at=0.0, wall=0.0).facts
        (self.token,) = [fact.token for fact in facts if isinstance(fact, AttemptStarting)]
        self.launcher = Deaf(lambda _: None)
        self.said: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.stops = Stops(self.deck, self.launcher, self.said.append, self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((seconds, call))

    def stop(self, grace_s: float) -> None:
        self.stops.stop(Stop(self.token, "TERM", "group", grace_s))

    def time_passes(self) -> None:
        for _, call in self.timers:
            call()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_what_outlives_a_kill_is_named_with_its_pid_once(rig: Rig) -> None:
    rig.launcher.there = {4711: rig.token, 12: "another's"}
    rig.stop(30.0)
    rig.stop(0.0)
    assert [seconds for seconds, _ in rig.timers] == [30.0 + LATE_S, LATE_S]
    rig.time_passes()
    assert rig.said == ["a: KILL does not end pid 4711; its slots stay taken until the kernel lets go of it"]


def test_a_process_that_ends_while_all_are_gone_through_is_not_spoken_of(rig: Rig) -> None:
    rig.launcher.there = Dying({4711: rig.token})
    rig.stop(0.0)
    rig.time_passes()
    assert "does not end pid 4711;" in rig.said[0]


def test_of_many_some_are_named_and_the_rest_counted(rig: Rig) -> None:
    rig.launcher.there = dict.fromkeys(range(1, 9), rig.token)
    rig.stop(0.0)
    rig.time_passes()
    assert "pid 1, 2, 3, 4, 5 and 3 more;" in rig.said[0]


def test_an_attempt_of_which_nothing_lives_is_not_spoken_of(rig: Rig) -> None:
    rig.stop(0.0)
    rig.time_passes()
    assert rig.said == []


def test_an_attempt_that_is_over_is_not_spoken_of(rig: Rig) -> None:
    rig.launcher.there = {4711: rig.token}
    rig.stop(0.0)
    rig.deck.active.clear()
    rig.time_passes()
    assert rig.said == []
