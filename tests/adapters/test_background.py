"""Work away from the loop: what hangs holds up nobody else, and nothing is done twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from gpudeck.engine.adapters.background import Background

LONG_S = 30.0


@contextmanager
def background() -> Iterator[Background]:
    made = Background(asyncio.get_running_loop())
    try:
        yield made
    finally:
        made.close()


def result_of(made: Background, work: Callable[[], str], *, timeout_s: float = LONG_S) -> asyncio.Future[str | None]:
    answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    made.submit(work, answer.set_result, timeout_s=timeout_s)
    return answer


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(body, LONG_S))


def test_a_job_that_hangs_is_given_up_and_those_behind_it_are_done() -> None:
    never = threading.Event()

    async def body() -> None:
        with background() as made:
            hung = result_of(made, lambda: str(never.wait(LONG_S)), timeout_s=0.05)
            behind = [result_of(made, lambda: "done", timeout_s=0.06) for _ in range(3)]
            assert await hung is None
            assert [await each for each in behind] == ["done"] * 3

    run(body())
    never.set()


def test_a_job_with_a_short_time_does_not_end_the_one_before_it() -> None:
    may_end, done = threading.Event(), []

    def slow() -> str:
        may_end.wait(LONG_S)
        done.append("slow")
        return "slow"

    async def body() -> None:
        with background() as made:
            first = result_of(made, slow)
            second = result_of(made, lambda: "short", timeout_s=0.01)
            await asyncio.sleep(0.05)  # longer than the second may take, which has not begun
            may_end.set()
            assert [await first, await second] == ["slow", "short"]
            assert done == ["slow"]

    run(body())


def test_jobs_are_done_in_the_order_in_which_they_came() -> None:
    async def body() -> None:
        order: list[int] = []
        with background() as made:
            answers = [result_of(made, lambda n=n: str(order.append(n))) for n in range(20)]
            await asyncio.gather(*answers)
        assert order == list(range(20))

    run(body())
