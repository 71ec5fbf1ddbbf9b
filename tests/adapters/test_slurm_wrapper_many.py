"""Many jobs at once on a node that has no time for them: each tells its own command's end."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.job_rig import Node, ended_in, order_in
from tests.inside.adapters import jobfiles, script

JOBS = 100
AT_ONCE = 16


def ended(folder: Path, job: int, *argv: str) -> tuple[int, int | None]:
    """Exit code of a job that shares nothing with others, and the code that it told of its command."""
    folder.mkdir()
    control, token = jobfiles.control_folder(str(folder)), f"{job:024x}"
    os.mkdir(control, 0o700)
    plain = order_in(folder, *argv)
    order = replace(plain, token=token, env={**plain.env, "GPUDECK_TOKEN": token})
    node = Node(folder, order, control)
    Path(node.path).write_text(script(order, control))
    code = node.run_to_its_end(str(job))
    return code, ended_in(control, token).code


@pytest.mark.soak
def test_the_ends_of_a_hundred_short_commands_are_all_told(tmp_path: Path) -> None:
    def run(job: int) -> tuple[int, int | None]:
        return ended(tmp_path / str(job), job, "true")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(run, range(1, JOBS + 1)))
    assert ends == [(0, 0)] * JOBS
