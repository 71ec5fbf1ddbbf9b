"""The control folder, as the engine looks at it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.inside.adapters import Control


@pytest.mark.parametrize("on_network", [True, False])
def test_only_a_folder_on_a_file_server_is_written_to_before_it_is_listed(tmp_path: Path, on_network: bool) -> None:
    """A client of NFS shows an old listing until it has written something itself."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        control, looked = Control(loop, str(tmp_path), on_network=on_network), loop.create_future()
        os.utime(tmp_path, (0, 0))
        control.look_around([], {}, looked.set_result)
        assert await looked == []
        assert (os.stat(tmp_path).st_mtime > 0, list(tmp_path.iterdir())) == (on_network, [])
        control.close()

    asyncio.run(body())


def test_a_folder_that_somebody_removed_is_made_again_with_the_claims_of_what_runs(tmp_path: Path) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        control, looked = Control(loop, str(tmp_path / "jobs"), on_network=False), loop.create_future()
        control.look_around([], {"token": "4711"}, looked.set_result)
        assert await looked is None
        assert (tmp_path / "jobs" / "token.claim").read_text().strip() == "4711"
        control.close()

    asyncio.run(body())
