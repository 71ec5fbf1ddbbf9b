"""An engine with a bug: it ends, its tasks go on, and the bug is told where it can be found."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudeck.engine.protocol.messages import Message, TaskEnded, TaskStarted
from tests.inside.engine import Engine, RunOptions, open_deck

PATIENCE_S = 30.0
DECK = """
[deck]
gpus = "none"
cpu_slots = 1
[[task]]
name = "a"
command = "read _ <gate; echo went on >after"
"""


def engine_in(folder: Path, show: Callable[[Message], None]) -> Engine:
    opened = open_deck(str(folder / "tasks.toml"), RunOptions(), dict(os.environ), as_root=True, takeover=False)
    return Engine(opened, show, cwd=str(folder))


def test_a_bug_ends_the_engine_with_its_traceback_and_the_next_one_has_the_task(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.toml").write_text(DECK)
    os.mkfifo(tmp_path / "gate")
    messages: list[Message] = []

    def broken() -> None:
        raise TypeError("cannot encode this")

    def breaking(message: Message) -> None:
        if isinstance(message, TaskStarted):
            asyncio.get_running_loop().call_soon(broken)

    async def run(show: Callable[[Message], None]) -> int:
        return await asyncio.wait_for(engine_in(tmp_path, show).run(takes=(), status_period_s=0.0), PATIENCE_S)

    assert asyncio.run(run(breaking)) == 3
    assert "TypeError: cannot encode this" in capfd.readouterr().err
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    os.write(gate, b"\n")
    assert asyncio.run(run(messages.append)) == 0
    os.close(gate)
    assert (tmp_path / "after").read_text() == "went on\n"
    assert [message.task for message in messages if isinstance(message, TaskEnded)] == ["a"]
