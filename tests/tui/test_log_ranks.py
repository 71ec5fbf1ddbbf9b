"""A log view of a task of several processes: from rank to rank, and to the one that is the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.inside.tui import source_of
from tests.tui.log_rig import log_app, source


def details(folder: Path, **more: Any) -> dict[str, Any]:
    """As `show` tells of a task of two ranks whose second one failed."""
    attempt = {
        "number": 1,
        "log": str(folder / "attempt-1.log"),
        "err": str(folder / "attempt-1.err"),
        "kind": "exit",
        "exit_code": 1,
        "reason": "rank 1 of 2: exit code 1: RuntimeError: bad batch",
    }
    return {"name": "t", "running": None, "attempts": [attempt], "launch": {"ranks": 2}, **more}


def written(folder: Path) -> None:
    for name in ("attempt-1", "attempt-1.rank1"):
        (folder / f"{name}.log").write_text(f"out of {name}\n")
        (folder / f"{name}.err").write_text(f"err of {name}\nRuntimeError: {name}\n")


async def test_a_key_goes_through_the_ranks_and_stays_there_when_the_deck_moves_on(tmp_path: Path) -> None:
    written(tmp_path)

    async with log_app() as rig:
        await rig.show(source_of(details(tmp_path)))
        await rig.sees("out of attempt-1\n", "rank 0 of 2")
        await rig.press("p")
        await rig.sees("out of attempt-1.rank1", "err of attempt-1.rank1", "rank 1 of 2")
        rig.view.show(source_of(details(tmp_path)))
        await rig.sees("out of attempt-1.rank1", "rank 1 of 2")
        await rig.press("p")
        await rig.sees("out of attempt-1\n", "rank 0 of 2")


async def test_the_first_error_is_that_of_the_rank_to_blame(tmp_path: Path) -> None:
    written(tmp_path)

    async with log_app() as rig:
        await rig.show(source_of(details(tmp_path)))
        await rig.press("x")
        await rig.sees("RuntimeError: attempt-1.rank1", "rank 1 of 2")


async def test_without_ranks_the_key_says_so(tmp_path: Path) -> None:
    async with log_app() as rig:
        await rig.show(source(tmp_path, b"alone\n"))
        await rig.press("p")
        await rig.sees("alone", "one process")
