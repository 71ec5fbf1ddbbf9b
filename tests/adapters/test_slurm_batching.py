"""Which attempts go into the next sbatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.job_rig import JOB, order_in
from tests.inside.adapters import Job, Limits, Outbox

FOLDER = Path("/logs")


def job(index: int, *, array: bool | None = None, gpus: int = 1) -> Job:
    options = {} if array is None else {"array": array}
    order = replace(order_in(FOLDER), job=replace(JOB, options=options, gpus=gpus))
    return Job(f"{index:024x}", order)


def outbox(jobs: list[Job], now: float = 0.0) -> Outbox:
    new = Outbox(Limits())
    for each in jobs:
        new.add(each, now)
    return new


def sent(out: Outbox, now: float) -> list[list[Job]]:
    """What goes out in each call, until all has or must wait."""
    found = list[list[Job]]()
    while batch := out.next(now, now):
        for each in batch:
            del out.jobs[each]
        found.append(batch)
    return found


def sizes(out: Outbox, now: float) -> list[int]:
    return [len(batch) for batch in sent(out, now)]


def test_the_first_goes_at_once_and_those_that_follow_wait_for_others() -> None:
    out = outbox([job(index) for index in range(60)])
    assert (sizes(out, 0.0), sizes(out, 0.1), sizes(out, 0.2)) == ([60], [], [])
    out = outbox([job(0)])
    first = sizes(out, 0.0)
    for index in range(1, 60):
        out.add(job(index), 0.0)
    assert (first, sizes(out, 0.1), sizes(out, 0.2)) == ([1], [], [59])


def test_those_that_come_back_wait_for_nobody() -> None:
    first = job(0, array=True)
    out = outbox([first])
    assert (out.next(0.0, 0.0), out.due(0.0)) == ([], 0.2)
    out.again([first])
    assert out.next(0.0, 0.0) == [first]


def test_few_alike_go_one_by_one() -> None:
    assert sizes(outbox([job(index) for index in range(49)]), 0.2) == [1] * 49


def test_one_that_comes_alone_never_waits() -> None:
    out = outbox([])
    for index in range(5):
        out.add(job(index), float(index))
        assert sizes(out, float(index)) == [1]


def test_with_array_true_even_two_share_one_and_wait_for_it() -> None:
    out = outbox([job(index, array=True) for index in range(2)])
    assert (sizes(out, 0.1), sizes(out, 0.2)) == ([], [2])


def test_with_array_false_each_goes_alone_and_at_once() -> None:
    assert sizes(outbox([job(index, array=False) for index in range(100)]), 0.0) == [1] * 100


def test_those_that_ask_for_other_things_share_no_array() -> None:
    assert sizes(outbox([job(index, array=True, gpus=1 + index % 2) for index in range(10)]), 0.2) == [5, 5]


def test_an_array_has_no_more_than_five_hundred_elements() -> None:
    assert sizes(outbox([job(index) for index in range(1200)]), 0.2) == [500, 500, 200]


def test_the_refusal_of_one_alone_is_its_own() -> None:
    out = outbox([job(index) for index in range(60)])
    assert not out.singly(1)
    assert sizes(out, 0.2) == [60]


def test_where_an_array_was_refused_each_goes_alone() -> None:
    out = outbox([job(index) for index in range(60)])
    assert out.singly(60)
    assert sizes(out, 8.2) == [1] * 60


def test_what_was_refused_is_not_tried_before_the_queue_was_seen_without_it() -> None:
    refused = job(0)
    out = outbox([refused])
    refused.refused_at = 5.0
    assert (out.next(9.0, 4.0), out.next(9.0, 6.0)) == ([], [refused])


def test_during_a_pause_nothing_goes_out() -> None:
    out = outbox([job(0)])
    assert out.hold("full", "1 waits", 10.0) == "full: 1 waits, tried again in 5 s"
    assert (out.next(14.0, 14.0), out.due(14.0), sizes(out, 15.0)) == ([], 15.0, [1])


def test_a_pause_ends_as_soon_as_slurm_has_fewer_jobs_than_were_too_many() -> None:
    out = outbox([job(0)])
    out.full = 2
    out.hold("full", "1 waits", 10.0)
    out.room(2)
    assert out.next(11.0, 11.0) == []
    out.room(1)
    assert sizes(out, 11.0) == [1]


@given(
    st.lists(st.tuples(st.sampled_from([None, True, False]), st.integers(0, 2), st.floats(0, 1)), max_size=150),
    st.integers(0, 600),
)
def test_once_they_have_waited_all_go_out_once_and_alike_in_each_call(
    wanted: list[tuple[bool | None, int, float]], refused: int
) -> None:
    out = Outbox(Limits())
    out.singly(refused)
    jobs = list[Job]()
    for index, (array, gpus, at) in enumerate(sorted(wanted, key=lambda one: one[2])):
        jobs.append(job(index, array=array, gpus=gpus))
        out.add(jobs[-1], at)
    batches = sent(out, 2.0)
    assert all(len({each.alike for each in batch}) == 1 for batch in batches)
    gone = [each for batch in batches for each in batch]
    assert (len(out.jobs), len(gone), set(gone)) == (0, len(jobs), set(jobs))
