"""Many jobs at once on a node that has no time for them, and many lines at the very moment when time is up."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.job_rig import Node, ended_in, order_in
from tests.inside.adapters import WRAPPER, jobfiles, script

JOBS = 100
AT_ONCE = 16
LISTENING = """\
heard=0
gd_before_limit() { heard=$((heard + 1)); }
exec 7<> <(:)
for ((said = 0; said < 4000; said++)); do
    echo "limit;" >&7
    printf -v pause 0.0000%02d $((RANDOM % 60 + 1))
    gd_await "$pause"
    gd_hear
done
[ "$heard" = "$said" ]
"""
"""The time that bash has to read a line is up before it, in it, and when its end has just been read."""


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


def test_each_line_is_heeded_once_wherever_in_it_the_time_is_up() -> None:
    functions = WRAPPER.partition("\ngd_listen\n")[0]
    heard = subprocess.run(("bash", "-pc", f"{functions}\n{LISTENING}"), timeout=60, capture_output=True, check=False)
    assert heard.returncode == 0, heard.stderr
