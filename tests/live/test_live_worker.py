"""The thread that works on the user's files."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineEndingError
from tests.inside.live import Looking, Worker


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


async def test_an_edit_that_an_engine_meets_at_its_end_is_no_failure_of_it(tmp_path: Path) -> None:
    async def edited(_: str) -> bool:
        return True

    (tmp_path / "tasks.toml").write_text("")
    worker, failures = Worker("tasks.toml"), list[Exception]()
    looking = Looking(
        str(tmp_path / "tasks.toml"), worker, edited=edited, unreadable=lambda _, __: None, failed=failures.append
    )
    worker.close()
    looking.start("another", only_if_told=False)
    for _ in range(20):
        await asyncio.sleep(0)
    looking.close()
    assert failures == []
