"""Work away from the loop: what hangs holds up nobody else, and nothing is done twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from tests.inside.adapters import Background

LONG_S = 30.0
TIME_S = 3.0
"""That a job may take, by the loop's clock; which stands still but for `pass_time`."""


@contextmanager
def background() -> Iterator[Background]:
    made = Background(asyncio.get_running_loop())
    try:
        yield made
    finally:
        made.close()


def result_of(made: Background, work: Callable[[], str], *, timeout_s: float = TIME_S) -> asyncio.Future[str | None]:
    answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    made.submit(work, answer.set_result, timeout_s=timeout_s)
    return answer


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(body)


async def pass_time(seconds: float) -> None:
    """Let the loop's clock go on, and what was due meanwhile happen."""
    loop = asyncio.get_running_loop()
    now_s = loop.time() + seconds
    loop.time = lambda: now_s
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_job_that_hangs_is_given_up_and_those_behind_it_are_done() -> None:
    never = threading.Event()

    async def body() -> None:
        with background() as made:
            await pass_time(0)
            hung = result_of(made, lambda: str(never.wait(LONG_S)))
            behind = [result_of(made, lambda: "done") for _ in range(3)]
            await pass_time(TIME_S)
            assert await hung is None
            assert [await each for each in behind] == ["done"] * 3

    run(body())
    never.set()


def test_a_job_is_not_given_up_for_the_time_that_the_one_before_it_took() -> None:
    may_end = threading.Event()

    async def body() -> None:
        with background() as made:
            await pass_time(0)
            first = result_of(made, lambda: str(may_end.wait(LONG_S)), timeout_s=9 * TIME_S)
            second = result_of(made, lambda: "second")
            await pass_time(2 * TIME_S)
            may_end.set()
            assert [await first, await second] == ["True", "second"]

    run(body())


def test_jobs_are_done_in_the_order_in_which_they_came() -> None:
    async def body() -> None:
        order: list[int] = []
        with background() as made:
            answers = [result_of(made, lambda n=n: str(order.append(n))) for n in range(20)]
            await asyncio.gather(*answers)
        assert order == list(range(20))

    run(body())
