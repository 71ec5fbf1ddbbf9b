"""The thread that works on the user's files."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gpudeck.engine.errors import EngineEndingError
from tests.inside.live import Worker


async def test_who_waits_for_it_as_the_engine_ends_is_told_and_who_comes_later_too() -> None:
    worker, begun, goes_on = Worker("tasks.toml"), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        goes_on.wait()

    waiting = asyncio.create_task(worker(work))
    await begun.wait()
    worker.close()
    with pytest.raises(EngineEndingError):
        await asyncio.wait_for(waiting, 10)
    with pytest.raises(EngineEndingError):
        await worker(work)
    goes_on.set()
