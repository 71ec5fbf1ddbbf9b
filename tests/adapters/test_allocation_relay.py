"""The two shells around a task on another node, with `env` in srun's place: it hands on input, output and code."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gpudeck.engine.adapters.allocation.relay import relayed

TIMEOUT_S = 60.0


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()


def start(script: str, started: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        relayed(["env"], ["bash", "-c", script]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    started.append(process)
    return process


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_code_of_the_command_comes_back(started: list[subprocess.Popen[str]]) -> None:
    assert start("exit 3", started).wait(TIMEOUT_S) == 3


def test_a_command_that_a_signal_ended_tells_so_as_a_shell_does(started: list[subprocess.Popen[str]]) -> None:
    assert start("kill -9 $$", started).wait(TIMEOUT_S) == 128 + signal.SIGKILL


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2"])
def test_a_signal_reaches_the_command_which_may_go_on(name: str, started: list[subprocess.Popen[str]]) -> None:
    wait = "while :; do read -r -t 100 -u 5; done"
    process = start(f'trap "echo got; exit 7" {name}; exec 5<> <(:); echo ready; {wait}', started)
    assert line(process) == "ready"
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert line(process) == "got"
    assert process.wait(TIMEOUT_S) == 7


def test_the_command_reads_nothing_of_what_the_shells_say_to_each_other(started: list[subprocess.Popen[str]]) -> None:
    process = start("cat; echo end", started)
    assert line(process) == "end"
    assert process.wait(TIMEOUT_S) == 0


def test_a_command_whose_line_is_cut_is_killed(started: list[subprocess.Popen[str]]) -> None:
    process = start("echo $$; exec sleep 1000", started)
    command = os.pidfd_open(int(line(process)))
    process.kill()
    process.wait()
    try:
        assert select.select([command], [], [], TIMEOUT_S)[0], "the command lives on"
    finally:
        os.close(command)
