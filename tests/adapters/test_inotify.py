"""What the kernel tells of a folder."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.inside.adapters import Arrivals
from tests.slurm.launcher_rig import until

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


def arrived(folder: Path, *names: str, times: int = 1) -> list[set[str] | None]:
    """What is told of names that are moved into the folder while nobody listens, up to a last one."""
    (folder / "from").mkdir()
    (folder / "to").mkdir()

    async def whole() -> list[set[str] | None]:
        told: list[set[str] | None] = []
        arrivals = Arrivals(asyncio.get_running_loop(), str(folder / "to"), told.append)
        for name in [*names] * times:
            (folder / "from" / name).touch()
            os.replace(folder / "from" / name, folder / "to" / name)
        await until(lambda: None in told or (told and times == 1))
        arrivals.close()
        arrivals.close()
        return told

    return asyncio.run(whole())


def test_names_that_are_moved_in_are_told_together(tmp_path: Path) -> None:
    assert arrived(tmp_path, "a.began", "ü.ended") == [{"a.began", "ü.ended"}]


def test_a_file_that_is_written_where_it_lies_is_told_once_it_is_closed(tmp_path: Path) -> None:
    async def whole() -> list[set[str] | None]:
        told: list[set[str] | None] = []
        arrivals = Arrivals(asyncio.get_running_loop(), str(tmp_path), told.append)
        (tmp_path / "a.ended").write_text("code=0\n")
        await until(lambda: told)
        arrivals.close()
        return told

    assert asyncio.run(whole()) == [{"a.ended"}]


def test_events_that_the_kernel_could_not_keep_are_told_as_missed(tmp_path: Path) -> None:
    assert None in arrived(tmp_path, "a", "b", times=int(QUEUE.read_text()) // 2 + 1000)


def test_a_folder_that_is_not_there_tells_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    async def whole() -> None:
        Arrivals(asyncio.get_running_loop(), str(tmp_path / "none"), lambda _: None).close()

    asyncio.run(whole())
