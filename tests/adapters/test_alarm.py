"""An alarm by the clock that goes on while the box sleeps."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.fakes.local_rig import until
from tests.inside.adapters import Alarm


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def with_alarm(body: Callable[[Alarm, list[float]], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        rings: list[float] = []
        alarm = Alarm(asyncio.get_running_loop(), lambda: rings.append(now_s()))
        try:
            await body(alarm, rings)
        finally:
            alarm.close()

    asyncio.run(whole())


def test_it_waits_by_the_kernels_clock_that_counts_sleep() -> None:
    async def body(alarm: Alarm, _: list[float]) -> None:
        alarm.set(now_s() + 1000)
        timers = [text for text in map(_fdinfo, os.listdir("/proc/self/fd")) if "clockid:" in text]
        (timer,) = timers
        told = {name: value.strip() for name, _, value in (line.partition(":") for line in timer.splitlines())}
        assert int(told["clockid"]) == time.CLOCK_BOOTTIME
        assert 990 < float(told["it_value"].strip("()").split(",")[0]) <= 1000

    with_alarm(body)


def test_it_rings_once_when_its_time_has_come() -> None:
    async def body(alarm: Alarm, rings: list[float]) -> None:
        at = now_s() + 0.02
        alarm.set(at)
        await until(lambda: rings)
        assert rings[0] >= at
        await turns()
        assert len(rings) == 1

    with_alarm(body)


def test_a_time_that_is_past_rings_at_once() -> None:
    async def body(alarm: Alarm, rings: list[float]) -> None:
        alarm.set(now_s() - 100)
        await until(lambda: rings)

    with_alarm(body)


def test_it_does_not_ring_at_a_time_that_was_set_before() -> None:
    async def body(alarm: Alarm, rings: list[float]) -> None:
        alarm.set(now_s() + 0.01)
        alarm.set(None)
        later = now_s() + 0.03
        await until(lambda: now_s() > later)
        await turns()
        assert not rings

    with_alarm(body)


def test_it_never_rings_once_it_is_closed() -> None:
    async def body(alarm: Alarm, rings: list[float]) -> None:
        alarm.close()
        alarm.set(now_s() - 1)
        await turns()
        assert not rings

    with_alarm(body)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _fdinfo(fd: str) -> str:
    path = Path(f"/proc/self/fdinfo/{fd}")
    return path.read_text() if path.exists() else ""
