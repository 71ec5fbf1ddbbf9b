"""Timeline, graph and errors of a large deck are told in portions, none of which holds up the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.events import Outcome
from gpudeck.engine.core.phases import Ended, Failed
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work
from gpudeck.engine.protocol.pages import AttemptRow
from tests.inside.engine import GRAPH_AT_ONCE, FailuresArgs, Graphs, LogNames, TimelineArgs, failures, timeline
from tests.inside.engine import TIMELINE_AT_ONCE as AT_ONCE

_T = TypeVar("_T")
INDEX = {"GPU-0": 0}
COUNT = 6_000


def spec(number: int) -> TaskSpec:
    return TaskSpec(
        name=f"t{number}",
        entry=f"entry{number % 4}",
        position=number,
        work=Work("true"),
        fingerprint=f"f{number}",
        resources=Resources(gpus=0),
        policy=Policy(),
        needs=(f"t{number - 1}",) if number % 4 == 3 else (),
        round=0,
    )


@pytest.fixture(scope="module")
def deck() -> Deck:
    """Every task has run twice: failed in run 1, ok in run 2; every hundredth failed again."""
    found = build(
        DeckFile("/tasks.toml", "tasks", DeckSettings(), tuple(spec(number) for number in range(COUNT))),
        gpus=[Gpu("GPU-0", 0, 0)],
        cores=1,
    )
    found.run.number = 2
    for task in found.tasks:
        wall = 1000.0 + task.index
        last = Outcome("exit", 1) if task.index % 100 == 0 else Outcome("ok", 0)
        task.ended = (
            Ended(1, Outcome("exit", 1), ("GPU-0",), 1.0, 0, wall, 1),
            Ended(2, last, ("GPU-0",), 2.0, 0, wall + 5.0, 2),
        )
        if task.index % 100 == 0:
            found.move(task, Failed(last))
    return found


def told(work: Awaitable[_T]) -> tuple[_T, int]:
    """The answer, and how many turns of the loop others had meanwhile."""

    async def both() -> tuple[_T, int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        answer = await work
        beside.cancel()
        return answer, turns

    return asyncio.run(both())


def pages(deck: Deck, **args: Any) -> list[AttemptRow]:
    rows: list[AttemptRow] = []
    start: int | None = 0
    while start is not None:
        page, _ = told(timeline(deck, TimelineArgs(start=start, **args), INDEX, 5.0))
        assert len(page.attempts) <= AT_ONCE + 1
        rows += page.attempts
        start = page.next
    return rows


def test_the_pages_of_a_timeline_have_every_attempt_once(deck: Deck) -> None:
    rows = pages(deck)
    assert len({(row.task, row.attempt) for row in rows}) == len(rows) == 2 * COUNT


def test_a_timeline_of_the_newest_run_has_no_attempt_of_an_earlier_one(deck: Deck) -> None:
    assert {row.run for row in pages(deck, runs=1)} == {2}


def test_an_attempt_starts_its_duration_before_its_end(deck: Deck) -> None:
    row = pages(deck)[1]
    assert (row.start, row.end, row.gpus, row.kind) == (1003.0, 1005.0, (0,), "exit")


def test_looking_for_few_attempts_among_many_leaves_the_loop_to_others(deck: Deck) -> None:
    page, turns = told(timeline(deck, TimelineArgs(since=1e9), INDEX, 5.0))
    assert (page.attempts, page.next) == ([], None)
    assert turns >= COUNT // AT_ONCE


def test_a_graph_counts_all_tasks_by_entry_and_leaves_the_loop_to_others(deck: Deck) -> None:
    graph, turns = told(Graphs(deck).graph(0.0))
    assert [(box.entry, box.total) for box in graph.boxes] == [(f"entry{number}", COUNT // 4) for number in range(4)]
    assert [(edge.before, edge.behind) for edge in graph.edges] == [(2, 3)]
    assert turns >= COUNT // GRAPH_AT_ONCE


def test_a_graph_is_worked_out_anew_when_the_deck_has_become_another(deck: Deck) -> None:
    own = build(DeckFile("/tasks.toml", "tasks", DeckSettings(), (spec(0),)), gpus=[], cores=1)
    graphs = Graphs(own)
    assert len(told(graphs.graph(0.0))[0].boxes) == 1
    own.become(build(DeckFile("/tasks.toml", "tasks", DeckSettings(), tuple(map(spec, range(4)))), gpus=[], cores=1))
    graph, _ = told(graphs.graph(0.0))
    assert (len(graph.boxes), len(graph.edges)) == (4, 1)


def test_a_graph_has_no_tasks_that_are_left_out_and_no_lines_to_them() -> None:
    file = DeckFile("/tasks.toml", "tasks", DeckSettings(), (spec(2), spec(3)), selected=frozenset({"t3"}))
    graph, _ = told(Graphs(build(file, gpus=[], cores=1)).graph(0.0))
    assert ([box.entry for box in graph.boxes], graph.edges) == (["entry3"], [])


def test_of_many_failures_the_newest_are_told(deck: Deck) -> None:
    names = LogNames("/logs", (task.name for task in deck.tasks))
    found, turns = told(failures(deck, FailuresArgs(limit=3), lambda task, n: names.paths(task, n, False), INDEX))
    assert found.total == COUNT // 100
    assert [row.task for row in found.failures] == [f"t{COUNT - 100 * place}" for place in (1, 2, 3)]
    assert found.failures[0].log == f"/logs/t{COUNT - 100}/attempt-2.log"
    assert turns >= COUNT // 1000
