"""What the screen says of holding a task that runs, and of the rung that a task is on, is what the engine does."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.screen_rig import over

FLAKY = """
[deck]
gpus = "sim:1"
[[task]]
name = "flaky"
command = "while [ ! -e end ]; do sleep 0.05; done; exit 1"
retries = 3
backoff = "0s"
"""
SHRINKS = """
[deck]
gpus = "sim:1"
[vars]
bs = 16
[[task]]
name = "big"
command = "[ {bs} = 4 ] || { echo 'torch.cuda.OutOfMemoryError: CUDA out of memory.' >&2; exit 1; }; sleep 1000"
on_oom = [{ vars = { bs = 8 } }, { vars = { bs = 4 } }, { vars = { bs = 2 } }]
"""


async def test_an_attempt_of_a_held_task_runs_on_and_the_next_one_waits_for_the_release(tmp_path: Path) -> None:
    async with over(tmp_path, FLAKY, {"flaky": "running"})() as rig:
        await rig.press("H")
        await rig.until_seen("flaky held: it runs on, no other")
        assert rig.row("flaky").state == "running"
        (tmp_path / "end").touch()
        await rig.until_state("flaky", "queued")
        assert (rig.row("flaky").attempt, rig.row("flaky").held) == (1, True)
        (tmp_path / "end").unlink()
        await rig.press("H")
        await rig.until(lambda: rig.row("flaky").attempt == 2, "it starts once it is released")


async def test_the_rung_of_a_task_stands_in_its_row_and_on_its_page(tmp_path: Path) -> None:
    async with over(tmp_path, SHRINKS, {"big": "running"})(size=(80, 24)) as rig:
        await rig.until(lambda: rig.row("big").attempt == 3, "it is on the second rung")
        await rig.until_seen("rung 2 of 3; before: out of")
        await rig.press("d")
        await rig.until_seen("attempt 3  ·  on_oom rung 2 of 3")
