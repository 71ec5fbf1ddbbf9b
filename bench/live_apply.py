"""How long the engine's loop does nothing else while an edit of a large task file is applied, and how long that takes
in all, while tasks go on starting and ending."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from gpudeck.engine.decks.opening import open_deck
from gpudeck.engine.engine import Engine
from gpudeck.engine.taskfile.options import RunOptions

TASKS = 10_000
STEP_S = 0.001
BUDGET_MS = 50.0
"""Of the swap; the longest wait of a timer also tells how busy the box is."""

FILE = """
[deck]
gpus = "none"
cpu_slots = 2
reload = "off"
[vars]
numbers = [{numbers}]
[[task]]
name = "t-{{n}}"
command = "{command}"
gpus = 0
matrix.n = "{{numbers}}"
"""


def text(command: str, tasks: int) -> str:
    return FILE.format(numbers=", ".join(map(str, range(tasks))), command=command)


async def measure(folder: Path, tasks: int) -> tuple[float, float, float, float]:
    """(longest wait of a timer before, and during the apply, the swap, the whole apply), in ms."""
    path = folder / "tasks.toml"
    path.write_text(text("sleep 0.05", tasks))
    opened = open_deck(str(path), RunOptions(), {}, as_root=True, takeover=False)
    engine = Engine(opened, lambda _: None, cwd=str(folder))
    running = asyncio.create_task(engine.run(takes=("failed",), status_period_s=0.0))
    gaps: list[float] = []

    async def heart() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(STEP_S)
            gaps.append(time.perf_counter() - before - STEP_S)

    beating = asyncio.create_task(heart())
    await asyncio.sleep(3.0)
    quiet = max(gaps[len(gaps) // 2 :])
    path.write_text(text("sleep 0.04", tasks + 100))
    gaps.clear()
    began = time.perf_counter()
    applied = await engine._live.apply()
    whole = time.perf_counter() - began
    await asyncio.sleep(1.0)
    worst = max(gaps)
    beating.cancel()
    engine._ending.leave("the bench")
    await running
    return quiet * 1e3, worst * 1e3, applied.pause_s * 1e3, whole * 1e3


def main() -> int:
    failed = False
    for tasks in (1_000, TASKS):
        with tempfile.TemporaryDirectory() as folder:
            quiet, worst, swap, whole = asyncio.run(measure(Path(folder), tasks))
        print(
            f"live apply, {tasks:,} tasks, all changed: swap {swap:.1f} ms (budget {BUDGET_MS:.0f} ms), longest wait "
            f"of a timer {worst:.1f} ms (without an apply {quiet:.1f} ms), {whole:.0f} ms in all"
        )
        failed = failed or swap > BUDGET_MS
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
