"""Which attempts go into the next sbatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.job_rig import JOB, order_in
from tests.inside.adapters import ArrayBatching, Job, Place

FOLDER = Path("/logs")
Ready = list[tuple[Job, Place]]


def job(index: int, *, array: bool | None = None, gpus: int = 1) -> Job:
    options = {} if array is None else {"array": array}
    order = replace(order_in(FOLDER), job=replace(JOB, options=options, gpus=gpus))
    return Job(f"{index:024x}", order)


def queued(batching: ArrayBatching, jobs: list[Job], now: float = 0.0) -> Ready:
    return [(each, batching.place(each, now)) for each in jobs]


def sizes(batching: ArrayBatching, ready: Ready, now: float) -> list[int]:
    """How many go out in each call, until all have or must wait."""
    left, found = list(ready), list[int]()
    while batch := batching.next(left, now):
        left = [(each, place) for each, place in left if each not in batch]
        found.append(len(batch))
    return found


def test_the_first_goes_at_once_and_those_that_follow_wait_for_others() -> None:
    batching = ArrayBatching()
    first, others = queued(batching, [job(0)]), queued(batching, [job(index) for index in range(1, 60)])
    assert (sizes(batching, first, 0.0), sizes(batching, others, 0.1), sizes(batching, others, 0.2)) == ([1], [], [59])


def test_those_that_come_back_wait_for_nobody() -> None:
    batching = ArrayBatching()
    first = job(0, array=True)
    assert batching.place(first, 0.0).not_before > 0.0
    assert batching.next([(first, batching.back(first, 1.0))], 1.0) == [first]


def test_few_alike_go_one_by_one() -> None:
    batching = ArrayBatching()
    assert sizes(batching, queued(batching, [job(index) for index in range(49)]), 0.2) == [1] * 49


def test_one_that_comes_alone_never_waits() -> None:
    batching = ArrayBatching()
    for index in range(5):
        assert sizes(batching, queued(batching, [job(index)], float(index)), float(index)) == [1]


def test_with_array_true_even_two_share_one_and_wait_for_it() -> None:
    batching = ArrayBatching()
    ready = queued(batching, [job(index, array=True) for index in range(2)])
    assert (sizes(batching, ready, 0.1), sizes(batching, ready, 0.2)) == ([], [2])


def test_with_array_false_each_goes_alone_and_at_once() -> None:
    batching = ArrayBatching()
    assert sizes(batching, queued(batching, [job(index, array=False) for index in range(100)]), 0.0) == [1] * 100


def test_those_that_ask_for_other_things_share_no_array() -> None:
    batching = ArrayBatching()
    ready = queued(batching, [job(index, array=True, gpus=1 + index % 2) for index in range(10)])
    assert sizes(batching, ready, 0.2) == [5, 5]


def test_an_array_has_no_more_than_five_hundred_elements() -> None:
    batching = ArrayBatching()
    assert sizes(batching, queued(batching, [job(index) for index in range(1200)]), 0.2) == [500, 500, 200]


def test_the_refusal_of_one_alone_is_its_own() -> None:
    batching = ArrayBatching()
    assert not batching.refused(1)
    assert sizes(batching, queued(batching, [job(index) for index in range(60)]), 0.2) == [60]


def test_where_an_array_was_refused_each_goes_alone() -> None:
    batching = ArrayBatching()
    assert batching.refused(60)
    assert sizes(batching, queued(batching, [job(index) for index in range(60)], 8.0), 8.2) == [1] * 60


@given(
    st.lists(st.tuples(st.sampled_from([None, True, False]), st.integers(0, 2), st.floats(0, 1)), max_size=150),
    st.integers(0, 600),
)
def test_once_they_have_waited_all_go_out_once_and_alike_in_each_call(
    wanted: list[tuple[bool | None, int, float]], refused: int
) -> None:
    batching = ArrayBatching()
    batching.refused(refused)
    ready = [
        (each, batching.place(each, at))
        for index, (array, gpus, at) in enumerate(sorted(wanted, key=lambda one: one[2]))
        for each in [job(index, array=array, gpus=gpus)]
    ]
    places, sent = dict(ready), list[Job]()
    left = list(ready)
    while batch := batching.next(left, 2.0):
        assert len({places[each].asks for each in batch}) == 1
        sent += batch
        left = [(each, place) for each, place in left if each not in batch]
    assert (left, len(sent), set(sent)) == ([], len(ready), set(places))
